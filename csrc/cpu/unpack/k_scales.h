// What Q4_K and Q5_K share: packed 6-bit scales and minimums (formats/k_scales.h) and the order of nibbles.
#pragma once
#include "unpack.h"

namespace ferrule::cpu::FERRULE_ISA {

// A block of these begins with f16 scale, f16 minimum and the 12 bytes of 6-bit scales and minimums: four words.
[[gnu::always_inline]] inline void unpack_k_scales(const uint8_t* const blocks[4], uint32_t half, Scales& out) {
    using namespace simd;
    const i32x16 words = transpose_lanes(as_i32(load4x16(blocks[0], blocks[1], blocks[2], blocks[3])));
    const i32x16 factors = repeat_lane<0>(words), first = repeat_lane<1>(words), second = repeat_lane<2>(words);
    i32x16 scale, minimum;
    if (half == 0) {
        scale = shift_right_lanes<0, 8, 16, 24>(first) & set1(63);
        minimum = shift_right_lanes<0, 8, 16, 24>(second) & set1(63);
    } else {
        const i32x16 third = repeat_lane<3>(words);
        // The top two bits of a byte of the first two words become bits 4 and 5.
        const i32x16 scale_top = shift_right_lanes<2, 10, 18, 26>(first) & set1(48);
        const i32x16 minimum_top = shift_right_lanes<2, 10, 18, 26>(second) & set1(48);
        scale = (shift_right_lanes<0, 8, 16, 24>(third) & set1(15)) | scale_top;
        minimum = (shift_right_lanes<4, 12, 20, 28>(third) & set1(15)) | minimum_top;
    }
    out.scale[0] = low_f16(factors) * to_f32(scale);
    out.minimum[0] = zero_f32() - high_f16(factors) * to_f32(minimum);
}

// 64 bytes, 128 codes: each 32 bytes hold two groups, the low nibbles and the high ones.
inline Codes nibbles_by_64(const uint8_t* p) {
    const simd::u8x64 both = simd::load(p), low = low_nibbles(both), high = high_nibbles(both);
    return {simd::even_lanes(low, high), simd::odd_lanes(low, high)};
}

}  // namespace ferrule::cpu::FERRULE_ISA
