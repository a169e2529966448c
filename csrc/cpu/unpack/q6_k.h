#pragma once
#include "../../formats/q6_k.h"
#include "group_bytes.h"
#include "two_bits.h"
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
        const Codes top = two_bits(block + offsetof(Block, high) + 32 * half);
        return {simd::even_then_even(low, high) | simd::shift_left<4>(top.first),
                simd::odd_then_odd(low, high) | simd::shift_left<4>(top.second)};
    }
    static void scales(const uint8_t* const blocks[4], uint32_t half, Scales& out) {
        const simd::f32x16 scale = repeat_f16_at(blocks, offsetof(Block, scale));
        const simd::u8x64 bytes = bytes_at(blocks, offsetof(Block, scales));
        out.scale[0] = scale * simd::to_f32(group_bytes<0>(bytes, half));
        out.scale[1] = scale * simd::to_f32(group_bytes<1>(bytes, half));
    }
};

}  // namespace ferrule::cpu::FERRULE_ISA
