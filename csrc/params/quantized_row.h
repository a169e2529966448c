// A row of activations quantised in groups of 32, as every integer matmul reads it, to 8 bits in one plane of bytes or
// to 16 bits in two: code = high, or 128 * high + low, so that byte dot products serve both.
//   int8  high[padded], low[padded]  code[i] = round(x[i] / scale[i / 32]), |code| <= max_code, |low| <= 64; low with
//                                    two planes only
//   f32   scale[padded / 32]         max|x| / max_code of the group
//   f32   scaled_sum[padded / 32]    scale * sum of the group's codes: multiplies a weight group's minimum
//   i32   sum16[padded / 16]         sums of codes over 16 values: corrects an integer offset of the weight codes
// Codes and sum16 lie by halves of groups: of each chunk the first 16 values of its four groups, then the last 16.
// Without planes, activations are rounded to bfloat16 instead, to nearest, ties to even; float32's subnormal numbers
// may become zero.
//   bf16  value[padded]
// padded = K rounded up to 128; the padding is zero. A row is a multiple of 64 bytes.
#pragma once
#include "signature.h"

namespace ferrule::quantized_row {

inline constexpr uint32_t kGroup = 32;
inline constexpr uint32_t kChunk = 128;

inline constexpr uint32_t max_code(uint32_t planes) {
    return planes == 1 ? 127 : 127 * 128 + 63;
}
inline constexpr uint32_t padded(uint32_t k) {
    return (k + kChunk - 1) / kChunk * kChunk;
}
// Which 16 codes, and which of sum16, belong to a half of a group.
inline constexpr uint32_t half_group(uint32_t group, uint32_t half) {
    return group / 4 * 8 + half * 4 + group % 4;
}
inline constexpr uint32_t low_offset(uint32_t k) {
    return padded(k);
}
inline constexpr uint32_t scale_offset(uint32_t k, uint32_t planes) {
    return planes * padded(k);
}
inline constexpr uint32_t scaled_sum_offset(uint32_t k, uint32_t planes) {
    return scale_offset(k, planes) + padded(k) / 32 * 4;
}
inline constexpr uint32_t sum16_offset(uint32_t k, uint32_t planes) {
    return scaled_sum_offset(k, planes) + padded(k) / 32 * 4;
}
inline constexpr uint32_t row_bytes(uint32_t k, uint32_t planes) {
    return planes == 0 ? 2 * padded(k) : sum16_offset(k, planes) + padded(k) / 16 * 4;
}

}  // namespace ferrule::quantized_row
