// What matmul and expert_matmul have in common, see csrc/params/product_tile.h: weights are decoded into threadgroup
// memory and multiplied as 8 x 8 matrices. Each of the four simdgroups has 16 rows and 32 columns of the tile.
#pragma once
#include <metal_stdlib>

#include "../csrc/params/product_tile.h"
#include "formats/all.h"

namespace ferrule {

namespace product_tile {

constant constexpr uint kStride = kDepth + 4;  // of rows of both tiles, against bank conflicts

// What holds the decoded weights of a format exactly.
template <class Block>
struct Decoded {
    typedef float Value;
};
template <>
struct Decoded<F16> {
    typedef half Value;
};

// What a simdgroup has of the result.
struct Sums {
    metal::simdgroup_matrix<float, 8, 8> matrices[2][4];
};

inline uint first_row(uint simdgroup) {
    return simdgroup / 2 * 16;
}
inline uint first_column(uint simdgroup) {
    return simdgroup % 2 * 32;
}

inline void clear(thread Sums& sums) {
    for (uint i = 0; i < 2; ++i) {
        for (uint j = 0; j < 4; ++j) {
            sums.matrices[i][j] = metal::make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
        }
    }
}

// The row of weights of which a thread loads a half, counted in the tile.
inline uint weight_row_of(uint thread_index) {
    return thread_index / 2;
}

// The thread's half of columns [begin, begin + kDepth) of its row of weights; zeros from k on.
template <class Block, class Tile>
inline void load_weights(device const Block* row, uint begin, uint k, uint thread_index, threadgroup Tile* tile) {
    const uint c = thread_index % 2 * 16;
    float values[16] = {};
    if (begin + c < k) WeightFormat<Block>::decode(row, begin + c, k, values);
    tile += weight_row_of(thread_index) * kStride + c;
    for (uint i = 0; i < 16; ++i) tile[i] = Tile(values[i]);
}

// sums += x_tile times weight_tile transposed.
template <class Tile>
inline void multiply(threadgroup const float* x_tile,
                     threadgroup const Tile* weight_tile,
                     uint simdgroup,
                     thread Sums& sums) {
    x_tile += first_row(simdgroup) * kStride;
    weight_tile += first_column(simdgroup) * kStride;
    for (uint c = 0; c < kDepth; c += 8) {
        metal::simdgroup_matrix<float, 8, 8> a[2];
        metal::simdgroup_matrix<Tile, 8, 8> b[4];
        for (uint i = 0; i < 2; ++i) metal::simdgroup_load(a[i], x_tile + 8 * i * kStride + c, kStride);
        for (uint j = 0; j < 4; ++j) {
            metal::simdgroup_load(b[j], weight_tile + 8 * j * kStride + c, kStride, ulong2(0), true);
        }
        for (uint i = 0; i < 2; ++i) {
            for (uint j = 0; j < 4; ++j) {
                metal::simdgroup_multiply_accumulate(sums.matrices[i][j], a[i], b[j], sums.matrices[i][j]);
            }
        }
    }
}

// The simdgroup's share of a tile [kRows, kColumns], of either address space.
template <class Floats>
inline void store(thread const Sums& sums, uint simdgroup, Floats tile) {
    tile += first_row(simdgroup) * kColumns + first_column(simdgroup);
    for (uint i = 0; i < 2; ++i) {
        for (uint j = 0; j < 4; ++j)
            metal::simdgroup_store(sums.matrices[i][j], tile + 8 * (i * kColumns + j), kColumns);
    }
}

}  // namespace product_tile

}  // namespace ferrule
