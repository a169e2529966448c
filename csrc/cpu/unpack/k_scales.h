// What Q4_K and Q5_K share: packed 6-bit scales and minimums (formats/k_scales.h) and the order of nibbles.
#pragma once
#include "unpack.h"

namespace ferrule::cpu::FERRULE_ISA {

// A block of these begins with f16 scale, f16 minimum and the 12 bytes of 6-bit scales and minimums.
inline void unpack_k_scales(const uint8_t* const blocks[4], uint32_t half, Scales& out) {
    uint32_t scales[4], minimums[4];
    for (int r = 0; r < 4; ++r) {
        uint32_t packed[3];
        __builtin_memcpy(packed, blocks[r] + 4, sizeof packed);
        if (half == 0) {
            scales[r] = packed[0] & 0x3f3f3f3fu;
            minimums[r] = packed[1] & 0x3f3f3f3fu;
        } else {
            scales[r] = (packed[2] & 0x0f0f0f0fu) | (packed[0] >> 2 & 0x30303030u);
            minimums[r] = (packed[2] >> 4 & 0x0f0f0f0fu) | (packed[1] >> 2 & 0x30303030u);
        }
    }
    simd::f32x16 scale, minimum;
    simd::repeat_f16_pairs(blocks, scale, minimum);
    out.scale[0] = scale * simd::to_f32(simd::transpose_u8(scales));
    out.minimum[0] = simd::zero_f32() - minimum * simd::to_f32(simd::transpose_u8(minimums));
}

// 64 bytes, 128 codes: each 32 bytes hold two groups, the low nibbles and the high ones.
inline Codes nibbles_by_64(const uint8_t* p) {
    const simd::u8x64 both = simd::load(p), low = low_nibbles(both), high = high_nibbles(both);
    return {simd::even_lanes(low, high), simd::odd_lanes(low, high)};
}

}  // namespace ferrule::cpu::FERRULE_ISA
