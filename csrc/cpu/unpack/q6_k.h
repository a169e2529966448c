#pragma once
#include "../../formats/q6_k.h"
#include "group_bytes.h"
#include "unpack.h"

namespace ferrule::cpu::FERRULE_ISA {

struct UnpackQ6_K {
    using Block = formats::Q6_K;
    static constexpr bool kFull = false, kMinimums = false;
    static constexpr int kOffset = 32, kParts = 2;

    static Codes codes(const uint8_t* block, uint32_t half) {
        using namespace simd;
        // Groups 0 and 1 are the low nibbles of 64 bytes, 2 and 3 the high ones; bits 2g and 2g + 1 of `high` belong to
        // group g.
        const u8x64 both = load(block + offsetof(Block, low) + 64 * half);
        const u8x64 low = low_nibbles(both), high = high_nibbles(both), top = set1_u8(0x30);
        const uint8_t* bits = block + offsetof(Block, high) + 32 * half;
        return {even_then_even(low, high) | (shift_lanes<4, 2, 0, -2>(repeat16(bits)) & top),
                odd_then_odd(low, high) | (shift_lanes<4, 2, 0, -2>(repeat16(bits + 16)) & top)};
    }
    static void scales(const uint8_t* const blocks[4], uint32_t half, Scales& out) {
        const simd::f32x16 scale = repeat_f16_at(blocks, offsetof(Block, scale));
        const simd::u8x64 bytes = bytes_at(blocks, offsetof(Block, scales));
        out.scale[0] = scale * simd::to_f32(group_bytes<0>(bytes, half));
        out.scale[1] = scale * simd::to_f32(group_bytes<1>(bytes, half));
    }
};

}  // namespace ferrule::cpu::FERRULE_ISA
