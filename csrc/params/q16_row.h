// A row of activations quantised to 16 bits in groups of 32, as every integer matmul reads it. A code is kept as two
// bytes, code = 128 * high + low, in planes of their own, so that byte dot products serve it.
//   int8  high[padded], low[padded]  code[i] = round(x[i] / scale[i / 32]), |code| <= kMaxCode, |low| <= 64
//   f32   scale[padded / 32]         max|x| / kMaxCode of the group
//   f32   scaled_sum[padded / 32]    scale * sum of the group's codes: multiplies a weight group's minimum
//   i32   sum16[padded / 16]         sums of codes over 16 values: corrects an integer offset of the weight codes
// padded = K rounded up to 128; the padding is zero. A row is a multiple of 64 bytes.
#pragma once
#include "signature.h"

namespace ferrule::q16_row {

inline constexpr uint32_t kGroup = 32;
inline constexpr uint32_t kChunk = 128;
inline constexpr uint32_t kMaxCode = 127 * 128 + 63;

inline constexpr uint32_t padded(uint32_t k) {
    return (k + kChunk - 1) / kChunk * kChunk;
}
inline constexpr uint32_t low_offset(uint32_t k) {
    return padded(k);
}
inline constexpr uint32_t scale_offset(uint32_t k) {
    return 2 * padded(k);
}
inline constexpr uint32_t scaled_sum_offset(uint32_t k) {
    return scale_offset(k) + padded(k) / 32 * 4;
}
inline constexpr uint32_t sum16_offset(uint32_t k) {
    return scaled_sum_offset(k) + padded(k) / 32 * 4;
}
inline constexpr uint32_t row_bytes(uint32_t k) {
    return sum16_offset(k) + padded(k) / 16 * 4;
}

}  // namespace ferrule::q16_row
