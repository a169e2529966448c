#pragma once
#include "../../formats/q5_k.h"
#include "k_scales.h"
#include "unpack.h"

namespace ferrule::cpu::FERRULE_ISA {

struct UnpackQ5_K {
    using Block = formats::Q5_K;
    static constexpr bool kFull = false, kMinimums = true;
    static constexpr int kOffset = 0, kParts = 1;

    static Codes codes(const uint8_t* block, uint32_t half) {
        const Codes low = nibbles_by_64(block + offsetof(Block, low) + 64 * half);
        const simd::u8x64 bit = half == 0 ? simd::lanes4_u8(1, 2, 4, 8) : simd::lanes4_u8(16, 32, 64, 128);
        const simd::u8x64 sixteen = simd::set1_u8(16);
        const uint8_t* high = block + offsetof(Block, high);
        return {low.first | (simd::test_bits(simd::repeat16(high), bit) & sixteen),
                low.second | (simd::test_bits(simd::repeat16(high + 16), bit) & sixteen)};
    }
    [[gnu::always_inline]] static void scales(const uint8_t* const blocks[4], uint32_t half, Scales& out) {
        unpack_k_scales(blocks, half, out);
    }
};

}  // namespace ferrule::cpu::FERRULE_ISA
