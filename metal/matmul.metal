// matmul, see csrc/params/matmul.h: for many rows of x. A threadgroup computes a tile of kTileRows rows and kTileN
// columns of out; weights are decoded into threadgroup memory, kTileK at a time, and multiplied as 8 x 8 matrices. Each
// of the four simdgroups has 16 rows and 32 columns of the tile.
#include <metal_stdlib>

#include "matmul_result.h"

using namespace metal;
using namespace ferrule;

constant constexpr uint kXStride = matmul::kTileK + 4;       // of rows of the x tile, against bank conflicts
constant constexpr uint kWeightStride = matmul::kTileK + 8;  // of rows of the weight tile

// Rows [row, ...) and columns [begin, begin + kTileK) of x; zeros outside.
static void load_x(device const float* x,
                   uint row,
                   uint n_rows,
                   uint begin,
                   uint k,
                   uint thread_index,
                   threadgroup float* tile) {
    for (uint i = thread_index; i < matmul::kTileRows * matmul::kTileK; i += matmul::kMatmulThreads) {
        const uint r = i / matmul::kTileK, c = i % matmul::kTileK;
        const bool inside = row + r < n_rows && begin + c < k;
        tile[r * kXStride + c] = inside ? x[ulong(row + r) * k + begin + c] : 0.0f;
    }
}

// Columns [begin, begin + kTileK) of the weights' rows [column, ...); two threads per row.
template <class Block, class Tile>
static void load_weights(device const Block* weight,
                         uint column,
                         uint n,
                         uint begin,
                         uint k,
                         uint thread_index,
                         threadgroup Tile* tile) {
    const uint r = thread_index / 2, c = thread_index % 2 * 16;
    float values[16] = {};
    if (begin + c < k) {
        device const Block* row = weight + ulong(min(column + r, n - 1)) * (k / Block::kElements);
        WeightFormat<Block>::decode(row, begin + c, k, values);
    }
    for (uint i = 0; i < 16; ++i) tile[r * kWeightStride + c + i] = Tile(values[i]);
}

template <class Block>
kernel void multiply_tile(device const float* x [[buffer(matmul::x)]],
                          device const Block* weight [[buffer(matmul::weight)]],
                          device const float* bias [[buffer(matmul::bias), function_constant(has_bias)]],
                          device const float* residual [[buffer(matmul::residual), function_constant(has_residual)]],
                          device float* out [[buffer(matmul::out)]],
                          constant Matmul& params [[buffer(params_buffer)]],
                          constant LaunchSizes& sizes [[buffer(sizes_buffer)]],
                          uint2 group [[threadgroup_position_in_grid]],
                          uint thread_index [[thread_index_in_threadgroup]],
                          uint simdgroup [[simdgroup_index_in_threadgroup]]) {
    typedef typename WeightFormat<Block>::Tile Tile;
    threadgroup float x_tile[matmul::kTileRows * kXStride];
    threadgroup Tile weight_tile[matmul::kTileN * kWeightStride];
    threadgroup float out_tile[matmul::kTileRows * matmul::kTileN];
    const uint k = params.k, n = params.n;
    const uint row = group.x * matmul::kTileRows, column = group.y * matmul::kTileN;
    const uint my_row = simdgroup / 2 * 16, my_column = simdgroup % 2 * 32;

    simdgroup_float8x8 sums[2][4];
    for (uint i = 0; i < 2; ++i) {
        for (uint j = 0; j < 4; ++j) sums[i][j] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    }
    for (uint begin = 0; begin < k; begin += matmul::kTileK) {
        load_x(x, row, sizes.rows, begin, k, thread_index, x_tile);
        load_weights(weight, column, n, begin, k, thread_index, weight_tile);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint c = 0; c < matmul::kTileK; c += 8) {
            simdgroup_float8x8 a[2];
            simdgroup_matrix<Tile, 8, 8> b[4];
            for (uint i = 0; i < 2; ++i) {
                simdgroup_load(a[i], x_tile + (my_row + 8 * i) * kXStride + c, kXStride);
            }
            for (uint j = 0; j < 4; ++j) {
                simdgroup_load(b[j], weight_tile + (my_column + 8 * j) * kWeightStride + c, kWeightStride, ulong2(0),
                               true);
            }
            for (uint i = 0; i < 2; ++i) {
                for (uint j = 0; j < 4; ++j) simdgroup_multiply_accumulate(sums[i][j], a[i], b[j], sums[i][j]);
            }
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    for (uint i = 0; i < 2; ++i) {
        for (uint j = 0; j < 4; ++j) {
            threadgroup float* corner = out_tile + (my_row + 8 * i) * matmul::kTileN + my_column + 8 * j;
            simdgroup_store(sums[i][j], corner, matmul::kTileN);
        }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint i = thread_index; i < matmul::kTileRows * matmul::kTileN; i += matmul::kMatmulThreads) {
        const uint r = row + i / matmul::kTileN, c = column + i % matmul::kTileN;
        if (r < sizes.rows && c < n) store_result(out_tile[i], r, c, params, bias, residual, out);
    }
}

template [[host_name("matmul_f32")]] kernel decltype(multiply_tile<F32>) multiply_tile<F32>;
template [[host_name("matmul_f16")]] kernel decltype(multiply_tile<F16>) multiply_tile<F16>;
template [[host_name("matmul_bf16")]] kernel decltype(multiply_tile<BF16>) multiply_tile<BF16>;
template [[host_name("matmul_q4_0")]] kernel decltype(multiply_tile<Q4_0>) multiply_tile<Q4_0>;
template [[host_name("matmul_q4_1")]] kernel decltype(multiply_tile<Q4_1>) multiply_tile<Q4_1>;
template [[host_name("matmul_q5_0")]] kernel decltype(multiply_tile<Q5_0>) multiply_tile<Q5_0>;
template [[host_name("matmul_q5_1")]] kernel decltype(multiply_tile<Q5_1>) multiply_tile<Q5_1>;
template [[host_name("matmul_q8_0")]] kernel decltype(multiply_tile<Q8_0>) multiply_tile<Q8_0>;
template [[host_name("matmul_q2_k")]] kernel decltype(multiply_tile<Q2_K>) multiply_tile<Q2_K>;
template [[host_name("matmul_q3_k")]] kernel decltype(multiply_tile<Q3_K>) multiply_tile<Q3_K>;
template [[host_name("matmul_q4_k")]] kernel decltype(multiply_tile<Q4_K>) multiply_tile<Q4_K>;
template [[host_name("matmul_q5_k")]] kernel decltype(multiply_tile<Q5_K>) multiply_tile<Q5_K>;
template [[host_name("matmul_q6_k")]] kernel decltype(multiply_tile<Q6_K>) multiply_tile<Q6_K>;
template [[host_name("matmul_iq1_s")]] kernel decltype(multiply_tile<IQ1_S>) multiply_tile<IQ1_S>;
template [[host_name("matmul_iq1_m")]] kernel decltype(multiply_tile<IQ1_M>) multiply_tile<IQ1_M>;
template [[host_name("matmul_iq2_xxs")]] kernel decltype(multiply_tile<IQ2_XXS>) multiply_tile<IQ2_XXS>;
template [[host_name("matmul_iq2_xs")]] kernel decltype(multiply_tile<IQ2_XS>) multiply_tile<IQ2_XS>;
template [[host_name("matmul_iq2_s")]] kernel decltype(multiply_tile<IQ2_S>) multiply_tile<IQ2_S>;
template [[host_name("matmul_iq3_xxs")]] kernel decltype(multiply_tile<IQ3_XXS>) multiply_tile<IQ3_XXS>;
template [[host_name("matmul_iq3_s")]] kernel decltype(multiply_tile<IQ3_S>) multiply_tile<IQ3_S>;
template [[host_name("matmul_iq4_nl")]] kernel decltype(multiply_tile<IQ4_NL>) multiply_tile<IQ4_NL>;
template [[host_name("matmul_iq4_xs")]] kernel decltype(multiply_tile<IQ4_XS>) multiply_tile<IQ4_XS>;
template [[host_name("matmul_tq1_0")]] kernel decltype(multiply_tile<TQ1_0>) multiply_tile<TQ1_0>;
template [[host_name("matmul_tq2_0")]] kernel decltype(multiply_tile<TQ2_0>) multiply_tile<TQ2_0>;
template [[host_name("matmul_mxfp4")]] kernel decltype(multiply_tile<MXFP4>) multiply_tile<MXFP4>;
template [[host_name("matmul_nvfp4")]] kernel decltype(multiply_tile<NVFP4>) multiply_tile<NVFP4>;
