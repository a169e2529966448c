// matmul, see csrc/params/linears.h: for many rows of x. A threadgroup computes a tile of kTileRows rows and kTileN
// columns of out; weights are decoded into threadgroup memory, kTileK at a time, and multiplied as 8 x 8 matrices. Each
// of the four simdgroups has 16 rows and 32 columns of the tile.
#include <metal_stdlib>

#include "linears.h"

using namespace metal;
using namespace ferrule;

constant constexpr uint kXStride = linears::kTileK + 4;       // of rows of the x tile, against bank conflicts
constant constexpr uint kWeightStride = linears::kTileK + 8;  // of rows of the weight tile

// Rows [row, ...) and columns [begin, begin + kTileK) of x; zeros outside.
static void load_x(device const float* x,
                   uint row,
                   uint n_rows,
                   uint begin,
                   uint k,
                   uint thread_index,
                   threadgroup float* tile) {
    for (uint i = thread_index; i < linears::kTileRows * linears::kTileK; i += linears::kMatmulThreads) {
        const uint r = i / linears::kTileK, c = i % linears::kTileK;
        const bool inside = row + r < n_rows && begin + c < k;
        tile[r * kXStride + c] = inside ? x[ulong(row + r) * k + begin + c] : 0.0f;
    }
}

// Columns [begin, begin + kTileK) of the weights' rows for a tile; two threads per row.
template <class Block, class Tile>
static void load_weights(thread const LinearTile<Block>& tile,
                         uint begin,
                         uint k,
                         uint thread_index,
                         threadgroup Tile* loaded) {
    const uint r = thread_index / 2, c = thread_index % 2 * 16;
    float values[16] = {};
    if (begin + c < k) {
        device const Block* row = weight_row(tile, r, linears::kTileN, k / Block::kElements);
        WeightFormat<Block>::decode(row, begin + c, k, values);
    }
    for (uint i = 0; i < 16; ++i) loaded[r * kWeightStride + c + i] = Tile(values[i]);
}

template <class Block>
kernel void multiply_tile(device const float* x [[buffer(linears::x)]],
                          device const Block* weight [[buffer(linears::weight)]],
                          device const float* bias [[buffer(linears::bias), function_constant(has_bias)]],
                          device const float* residual [[buffer(linears::residual), function_constant(has_residual)]],
                          device float* out [[buffer(linears::out)]],
                          device const Block* weight_b [[buffer(linears::weight_b), function_constant(has_weight_b)]],
                          device const float* bias_b [[buffer(linears::bias_b), function_constant(has_bias_b)]],
                          device float* out_b [[buffer(linears::out_b), function_constant(has_out_b)]],
                          device const Block* weight_c [[buffer(linears::weight_c), function_constant(has_out_c)]],
                          device const float* bias_c [[buffer(linears::bias_c), function_constant(has_bias_c)]],
                          device float* out_c [[buffer(linears::out_c), function_constant(has_out_c)]],
                          constant Linears& params [[buffer(params_buffer)]],
                          constant LaunchSizes& sizes [[buffer(sizes_buffer)]],
                          uint2 group [[threadgroup_position_in_grid]],
                          uint thread_index [[thread_index_in_threadgroup]],
                          uint simdgroup [[simdgroup_index_in_threadgroup]]) {
    typedef typename WeightFormat<Block>::Tile Tile;
    threadgroup float x_tile[linears::kTileRows * kXStride];
    threadgroup Tile weight_tile[linears::kTileN * kWeightStride];
    threadgroup float out_tile[linears::kTileRows * linears::kTileN];
    const uint k = params.k, row = group.x * linears::kTileRows;
    const LinearTile<Block> tile =
        find_tile<Block>(group.y, linears::kTileN, {weight, has_bias ? bias : nullptr, out, params.n},
                         {weight_b, has_bias_b ? bias_b : nullptr, out_b, params.n_b},
                         {weight_c, has_bias_c ? bias_c : nullptr, out_c, params.n_c});
    const uint my_row = simdgroup / 2 * 16, my_column = simdgroup % 2 * 32;

    simdgroup_float8x8 sums[2][4];
    for (uint i = 0; i < 2; ++i) {
        for (uint j = 0; j < 4; ++j) sums[i][j] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    }
    for (uint begin = 0; begin < k; begin += linears::kTileK) {
        load_x(x, row, sizes.rows, begin, k, thread_index, x_tile);
        load_weights(tile, begin, k, thread_index, weight_tile);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint c = 0; c < linears::kTileK; c += 8) {
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
            threadgroup float* corner = out_tile + (my_row + 8 * i) * linears::kTileN + my_column + 8 * j;
            simdgroup_store(sums[i][j], corner, linears::kTileN);
        }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    const uint columns = result_columns(linears::kTileN);
    for (uint i = thread_index; i < linears::kTileRows * columns; i += linears::kMatmulThreads) {
        const uint r = i / columns, c = i % columns, column = tile.first + c;
        if (row + r >= sizes.rows || column >= tile.linear.n) continue;
        threadgroup const float* sums = out_tile + r * linears::kTileN + c;
        store_result(tile, row + r, column, sums[0], fc_gated ? sums[columns] : 0.0f, residual);
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
