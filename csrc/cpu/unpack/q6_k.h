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
        constexpr size_t scales = offsetof(Block, scales), factor = offsetof(Block, scale);
        const uint8_t* const factors[4] = {blocks[0] + factor, blocks[1] + factor, blocks[2] + factor,
                                           blocks[3] + factor};
        const simd::f32x16 d = simd::repeat_f16(factors);
        const simd::u8x64 bytes =
            simd::load4x16(blocks[0] + scales, blocks[1] + scales, blocks[2] + scales, blocks[3] + scales);
        out.scale[0] = d * group_scales<0>(bytes, half);
        out.scale[1] = d * group_scales<1>(bytes, half);
    }

  private:
    // The scales of one part of the groups; lane r of bytes has those of row r.
    template <int part>
    static simd::f32x16 group_scales(simd::u8x64 bytes, uint32_t half) {
        static constexpr uint8_t b = part;
        // Byte 2g + part becomes the top byte of element g.
        static constexpr uint8_t order[2][16] = {{0, 0, 0, b, 0, 0, 0, b + 2, 0, 0, 0, b + 4, 0, 0, 0, b + 6},
                                                 {0, 0, 0, b + 8, 0, 0, 0, b + 10, 0, 0, 0, b + 12, 0, 0, 0, b + 14}};
        const simd::u8x64 spread = simd::lookup16(bytes, simd::repeat16(order[half]));
        return simd::to_f32(simd::transpose_lanes(simd::as_i32(spread)) >> 24);
    }
    // Bits 2g and 2g + 1 of 16 bytes, for lane g, as bits 4 and 5.
    static simd::u8x64 top_bits(const uint8_t* p) {
        const simd::u8x64 all = simd::repeat16(p);
        return simd::shift_left<4>(simd::shift_right_lanes<0, 2, 4, 6>(all) & simd::set1_u8(3));
    }
};

}  // namespace ferrule::cpu::FERRULE_ISA
