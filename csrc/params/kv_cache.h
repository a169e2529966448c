// The paged key/value cache as kernels see it. One layer's pool is an array of blocks; a block holds 64 positions:
//   for each KV head:  K transposed [head_dim][64], then V [64][v_head_dim]      (f32 or f16)
// K is transposed so that 64 scores are computed with lanes = positions and no horizontal sums.
// A slot is block * 64 + position % 64. A sequence's i-th block is block_table[span.block_table_begin + i].
#pragma once
#include "metal_dispatch.h"
#include "signature.h"

namespace ferrule {

FERRULE_CONSTANT uint32_t kCacheBlock = 64;

// One sequence's share of a step: rows [row_begin, row_begin + n_rows) of the batch are the positions
// [position_begin, position_begin + n_rows) of the sequence.
struct Span {
    uint32_t row_begin;
    uint32_t n_rows;
    uint32_t position_begin;
    uint32_t block_table_begin;
};

}  // namespace ferrule
