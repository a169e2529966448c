// matvec and matvec_rows, see csrc/params/linears.h: for few rows of x. A simdgroup takes some rows of the weights; its
// lanes share out their length.
#include <metal_stdlib>

#include "linears.h"

using namespace metal;
using namespace ferrule;

constant bool has_weight_b [[function_constant(linears::has_weight_b)]];

// One row of x (grid y): each chunk of it is read once for kMatvecRows rows of weights.
template <class Block>
kernel void matvec(device const float* x [[buffer(linears::x)]],
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
                   device const float* up [[buffer(linears::up), function_constant(has_up)]],
                   constant Linears& params [[buffer(params_buffer)]],
                   uint2 group [[threadgroup_position_in_grid]],
                   uint simdgroup [[simdgroup_index_in_threadgroup]],
                   uint lane [[thread_index_in_simdgroup]]) {
    typedef WeightFormat<Block> Format;
    const uint k = params.k, row = group.y, columns = result_columns(linears::kMatvecRows);
    LinearTile<Block> tile = find_tile<Block>(group.x, linears::kMatvecSimdgroups * linears::kMatvecRows,
                                              {weight, has_bias ? bias : nullptr, out, params.n},
                                              {weight_b, has_bias_b ? bias_b : nullptr, out_b, params.n_b},
                                              {weight_c, has_bias_c ? bias_c : nullptr, out_c, params.n_c});
    tile.first += simdgroup * columns;
    if (tile.first >= tile.linear.n) return;
    device const Block* weights[linears::kMatvecRows];
    for (uint r = 0; r < linears::kMatvecRows; ++r) {
        weights[r] = weight_row(tile, r, linears::kMatvecRows, k / Block::kElements);
    }
    x += ulong(row) * k;

    float sums[linears::kMatvecRows] = {};
    const uint n_chunks = (k + Format::kChunk - 1) / Format::kChunk;
    for (uint chunk = lane; chunk < n_chunks; chunk += kSimdWidth) {
        typename Format::Input input;
        Format::prepare(x, chunk, k, input);
        for (uint r = 0; r < linears::kMatvecRows; ++r) sums[r] += Format::dot(weights[r], chunk, k, input);
    }
    for (uint r = 0; r < linears::kMatvecRows; ++r) sums[r] = simd_sum(sums[r]);
    for (uint r = 0; r < columns; ++r) {
        const uint column = tile.first + r;
        const float gated = fc_gated ? sums[r + linears::kMatvecRows / 2] : 0.0f;
        if (lane == 0 && column < tile.linear.n) store_result(tile, row, column, sums[r], gated, params, residual, up);
    }
}

// 16 values of a row of x, zeros from k on.
template <class Block>
static void load_padded(device const float* x, uint begin, uint k, thread float* values) {
    if (Block::kElements > 1) {
        load_inputs<16>(x + begin, values);
    } else {
        for (uint i = 0; i < 16; ++i) values[i] = begin + i < k ? x[begin + i] : 0.0f;
    }
}

// Up to kMatvecColumns rows of x (tiles in grid y): weights are decoded once for all of them. Loops over columns are
// unrolled, for their sums live in registers.
template <class Block>
kernel void matvec_rows(device const float* x [[buffer(linears::x)]],
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
                        device const float* up [[buffer(linears::up), function_constant(has_up)]],
                        constant Linears& params [[buffer(params_buffer)]],
                        constant LaunchSizes& sizes [[buffer(sizes_buffer)]],
                        uint2 group [[threadgroup_position_in_grid]],
                        uint simdgroup [[simdgroup_index_in_threadgroup]],
                        uint lane [[thread_index_in_simdgroup]]) {
    const uint k = params.k, row = group.y * linears::kMatvecColumns;
    const uint columns = result_columns(linears::kMatvecRowsRows);
    LinearTile<Block> tile = find_tile<Block>(group.x, linears::kMatvecSimdgroups * linears::kMatvecRowsRows,
                                              {weight, has_bias ? bias : nullptr, out, params.n},
                                              {weight_b, has_bias_b ? bias_b : nullptr, out_b, params.n_b},
                                              {weight_c, has_bias_c ? bias_c : nullptr, out_c, params.n_c});
    tile.first += simdgroup * columns;
    if (tile.first >= tile.linear.n) return;
    const uint n_columns = min(sizes.rows - row, linears::kMatvecColumns);
    x += ulong(row) * k;

    float sums[linears::kMatvecRowsRows][linears::kMatvecColumns] = {};
    for (uint begin = 16 * lane; begin < k; begin += 16 * kSimdWidth) {
        float weights[linears::kMatvecRowsRows][16];
        for (uint r = 0; r < linears::kMatvecRowsRows; ++r) {
            device const Block* stored = weight_row(tile, r, linears::kMatvecRowsRows, k / Block::kElements);
            WeightFormat<Block>::decode(stored, begin, k, weights[r]);
        }
#pragma unroll
        for (uint column = 0; column < linears::kMatvecColumns; ++column) {
            if (column >= n_columns) continue;
            float values[16];
            load_padded<Block>(x + ulong(column) * k, begin, k, values);
            for (uint r = 0; r < linears::kMatvecRowsRows; ++r) {
                for (uint i = 0; i < 16; ++i) sums[r][column] += weights[r][i] * values[i];
            }
        }
    }
#pragma unroll
    for (uint column = 0; column < linears::kMatvecColumns; ++column) {
        if (column >= n_columns) continue;
#pragma unroll
        for (uint r = 0; r < linears::kMatvecRowsRows; ++r) sums[r][column] = simd_sum(sums[r][column]);
#pragma unroll
        for (uint r = 0; r < columns; ++r) {
            const uint n = tile.first + r;
            const float gated = fc_gated ? sums[r + linears::kMatvecRowsRows / 2][column] : 0.0f;
            if (lane == 0 && n < tile.linear.n)
                store_result(tile, row + column, n, sums[r][column], gated, params, residual, up);
        }
    }
}

template [[host_name("matvec_f32")]] kernel decltype(matvec<F32>) matvec<F32>;
template [[host_name("matvec_f16")]] kernel decltype(matvec<F16>) matvec<F16>;
template [[host_name("matvec_bf16")]] kernel decltype(matvec<BF16>) matvec<BF16>;
template [[host_name("matvec_q4_0")]] kernel decltype(matvec<Q4_0>) matvec<Q4_0>;
template [[host_name("matvec_q4_1")]] kernel decltype(matvec<Q4_1>) matvec<Q4_1>;
template [[host_name("matvec_q5_0")]] kernel decltype(matvec<Q5_0>) matvec<Q5_0>;
template [[host_name("matvec_q5_1")]] kernel decltype(matvec<Q5_1>) matvec<Q5_1>;
template [[host_name("matvec_q8_0")]] kernel decltype(matvec<Q8_0>) matvec<Q8_0>;
template [[host_name("matvec_q2_k")]] kernel decltype(matvec<Q2_K>) matvec<Q2_K>;
template [[host_name("matvec_q3_k")]] kernel decltype(matvec<Q3_K>) matvec<Q3_K>;
template [[host_name("matvec_q4_k")]] kernel decltype(matvec<Q4_K>) matvec<Q4_K>;
template [[host_name("matvec_q5_k")]] kernel decltype(matvec<Q5_K>) matvec<Q5_K>;
template [[host_name("matvec_q6_k")]] kernel decltype(matvec<Q6_K>) matvec<Q6_K>;
template [[host_name("matvec_iq1_s")]] kernel decltype(matvec<IQ1_S>) matvec<IQ1_S>;
template [[host_name("matvec_iq1_m")]] kernel decltype(matvec<IQ1_M>) matvec<IQ1_M>;
template [[host_name("matvec_iq2_xxs")]] kernel decltype(matvec<IQ2_XXS>) matvec<IQ2_XXS>;
template [[host_name("matvec_iq2_xs")]] kernel decltype(matvec<IQ2_XS>) matvec<IQ2_XS>;
template [[host_name("matvec_iq2_s")]] kernel decltype(matvec<IQ2_S>) matvec<IQ2_S>;
template [[host_name("matvec_iq3_xxs")]] kernel decltype(matvec<IQ3_XXS>) matvec<IQ3_XXS>;
template [[host_name("matvec_iq3_s")]] kernel decltype(matvec<IQ3_S>) matvec<IQ3_S>;
template [[host_name("matvec_iq4_nl")]] kernel decltype(matvec<IQ4_NL>) matvec<IQ4_NL>;
template [[host_name("matvec_iq4_xs")]] kernel decltype(matvec<IQ4_XS>) matvec<IQ4_XS>;
template [[host_name("matvec_tq1_0")]] kernel decltype(matvec<TQ1_0>) matvec<TQ1_0>;
template [[host_name("matvec_tq2_0")]] kernel decltype(matvec<TQ2_0>) matvec<TQ2_0>;
template [[host_name("matvec_mxfp4")]] kernel decltype(matvec<MXFP4>) matvec<MXFP4>;
template [[host_name("matvec_nvfp4")]] kernel decltype(matvec<NVFP4>) matvec<NVFP4>;

template [[host_name("matvec_rows_f32")]] kernel decltype(matvec_rows<F32>) matvec_rows<F32>;
template [[host_name("matvec_rows_f16")]] kernel decltype(matvec_rows<F16>) matvec_rows<F16>;
template [[host_name("matvec_rows_bf16")]] kernel decltype(matvec_rows<BF16>) matvec_rows<BF16>;
template [[host_name("matvec_rows_q4_0")]] kernel decltype(matvec_rows<Q4_0>) matvec_rows<Q4_0>;
template [[host_name("matvec_rows_q4_1")]] kernel decltype(matvec_rows<Q4_1>) matvec_rows<Q4_1>;
template [[host_name("matvec_rows_q5_0")]] kernel decltype(matvec_rows<Q5_0>) matvec_rows<Q5_0>;
template [[host_name("matvec_rows_q5_1")]] kernel decltype(matvec_rows<Q5_1>) matvec_rows<Q5_1>;
template [[host_name("matvec_rows_q8_0")]] kernel decltype(matvec_rows<Q8_0>) matvec_rows<Q8_0>;
template [[host_name("matvec_rows_q2_k")]] kernel decltype(matvec_rows<Q2_K>) matvec_rows<Q2_K>;
template [[host_name("matvec_rows_q3_k")]] kernel decltype(matvec_rows<Q3_K>) matvec_rows<Q3_K>;
template [[host_name("matvec_rows_q4_k")]] kernel decltype(matvec_rows<Q4_K>) matvec_rows<Q4_K>;
template [[host_name("matvec_rows_q5_k")]] kernel decltype(matvec_rows<Q5_K>) matvec_rows<Q5_K>;
template [[host_name("matvec_rows_q6_k")]] kernel decltype(matvec_rows<Q6_K>) matvec_rows<Q6_K>;
template [[host_name("matvec_rows_iq1_s")]] kernel decltype(matvec_rows<IQ1_S>) matvec_rows<IQ1_S>;
template [[host_name("matvec_rows_iq1_m")]] kernel decltype(matvec_rows<IQ1_M>) matvec_rows<IQ1_M>;
template [[host_name("matvec_rows_iq2_xxs")]] kernel decltype(matvec_rows<IQ2_XXS>) matvec_rows<IQ2_XXS>;
template [[host_name("matvec_rows_iq2_xs")]] kernel decltype(matvec_rows<IQ2_XS>) matvec_rows<IQ2_XS>;
template [[host_name("matvec_rows_iq2_s")]] kernel decltype(matvec_rows<IQ2_S>) matvec_rows<IQ2_S>;
template [[host_name("matvec_rows_iq3_xxs")]] kernel decltype(matvec_rows<IQ3_XXS>) matvec_rows<IQ3_XXS>;
template [[host_name("matvec_rows_iq3_s")]] kernel decltype(matvec_rows<IQ3_S>) matvec_rows<IQ3_S>;
template [[host_name("matvec_rows_iq4_nl")]] kernel decltype(matvec_rows<IQ4_NL>) matvec_rows<IQ4_NL>;
template [[host_name("matvec_rows_iq4_xs")]] kernel decltype(matvec_rows<IQ4_XS>) matvec_rows<IQ4_XS>;
template [[host_name("matvec_rows_tq1_0")]] kernel decltype(matvec_rows<TQ1_0>) matvec_rows<TQ1_0>;
template [[host_name("matvec_rows_tq2_0")]] kernel decltype(matvec_rows<TQ2_0>) matvec_rows<TQ2_0>;
template [[host_name("matvec_rows_mxfp4")]] kernel decltype(matvec_rows<MXFP4>) matvec_rows<MXFP4>;
template [[host_name("matvec_rows_nvfp4")]] kernel decltype(matvec_rows<NVFP4>) matvec_rows<NVFP4>;
