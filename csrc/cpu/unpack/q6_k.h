#pragma once
#include "../../formats/q6_k.h"
#include "unpack.h"

namespace ferrule::cpu::FERRULE_ISA {

struct UnpackQ6_K {
    using Block = formats::Q6_K;
    static constexpr bool kFull = false, kMinimums = false;
    static constexpr int kOffset = 32, kParts = 2;

    static Codes codes(const uint8_t* block, uint32_t half) {
        // Groups 0 and 1 are the low nibbles of 64 bytes, 2 and 3 the high ones.
        const simd::u8x64 both = simd::load(block + offsetof(Block, low) + 64 * half);
        const simd::u8x64 low = low_nibbles(both), high = high_nibbles(both);
        const uint8_t* top = block + offsetof(Block, high) + 32 * half;
        return {simd::even_then_even(low, high) | top_bits(top), simd::odd_then_odd(low, high) | top_bits(top + 16)};
    }
    static void scales(const uint8_t* const blocks[4], uint32_t half, Scales& out) {
        uint32_t even[4], odd[4];  // scales of the first and second halves of the four groups
        const uint8_t* scale[4];
        for (int r = 0; r < 4; ++r) {
            uint64_t eight;
            __builtin_memcpy(&eight, blocks[r] + offsetof(Block, scales) + 8 * half, 8);
            even[r] = every_second_byte(eight);
            odd[r] = every_second_byte(eight >> 8);
            scale[r] = blocks[r] + offsetof(Block, scale);
        }
        const simd::f32x16 d = simd::repeat_f16(scale);
        out.scale[0] = d * simd::to_f32(simd::transpose_i8(even));
        out.scale[1] = d * simd::to_f32(simd::transpose_i8(odd));
    }

  private:
    // Bits 2g and 2g + 1 of 16 bytes, for lane g, as bits 4 and 5.
    static simd::u8x64 top_bits(const uint8_t* p) {
        const simd::u8x64 all = simd::repeat16(p);
        return simd::shift_left<4>(simd::shift_right_lanes<0, 2, 4, 6>(all) & simd::set1_u8(3));
    }
    static uint32_t every_second_byte(uint64_t x) {
        x &= 0x00ff00ff00ff00ffu;
        x = (x | x >> 8) & 0x0000ffff0000ffffu;
        return static_cast<uint32_t>(x | x >> 16);
    }
};

}  // namespace ferrule::cpu::FERRULE_ISA
