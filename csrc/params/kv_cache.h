// The paged key/value cache as kernels see it. One layer's pool is an array of blocks, of which the layer may own only
// some, as the numbers in its block tables say; a block holds 64 positions:
//   for each KV head:  K transposed [head_dim][64], then V [64][v_head_dim]      (f32 or f16)
// K is transposed so that 64 scores are computed with lanes = positions and no horizontal sums.
// In q8_0, a key or value vector is cut into groups of 32 values, the last perhaps shorter: value = scale * code, with
//   d = max|x| / 127 of the group, scale = d in f16, code = x * (1 / d) to the nearest, ties away from zero,
// in f32, as in GGUF's blocks of that name; codes are 0 where d is subnormal, and what is not finite makes the scale
// so. K and V are then each bytes of codes, in the order above, and behind them f16 scales [groups][64].
// In bf16, rounded to nearest, ties to even, values stand in pairs as dot products take them, the first in the lower
// half: K [padded / 2][64] pairs of dimensions, V [32][padded] pairs of positions; padded = width up to 16.
// A slot is block * 64 + position % 64. A sequence's i-th block is block_table[span.block_table_begin + i].
#pragma once
#include "metal_dispatch.h"
#include "signature.h"

namespace ferrule {

FERRULE_CONSTANT uint32_t kCacheBlock = 64;
FERRULE_CONSTANT uint32_t kCacheGroup = 32;              // values that share a scale
FERRULE_CONSTANT float kMinCacheStep = 1.17549435e-38f;  // the least d that is not subnormal

constexpr uint32_t cache_groups(uint32_t width) {
    return (width + kCacheGroup - 1) / kCacheGroup;
}
// Bytes of a vector of `width` values in q8_0.
constexpr uint32_t quantized_vector_bytes(uint32_t width) {
    return width + 2 * cache_groups(width);
}
// The same in bf16.
constexpr uint32_t rounded_vector_bytes(uint32_t width) {
    return (width + 15) / 16 * 32;
}

// One sequence's share of a step: rows [row_begin, row_begin + n_rows) of the batch are the positions
// [position_begin, position_begin + n_rows) of the sequence.
struct Span {
    uint32_t row_begin;
    uint32_t n_rows;
    uint32_t position_begin;
    uint32_t block_table_begin;
};

}  // namespace ferrule
