// matvec and matvec_rows, see csrc/params/matmul.h: for few rows of x. A simdgroup takes some rows of the weights; its
// lanes share out their length.
#include <metal_stdlib>

#include "matmul_result.h"

using namespace metal;
using namespace ferrule;

// One row of x (grid y): each chunk of it is read once for kMatvecRows rows of weights.
template <class Block>
kernel void matvec(device const float* x [[buffer(matmul::x)]],
                   device const Block* weight [[buffer(matmul::weight)]],
                   device const float* bias [[buffer(matmul::bias), function_constant(has_bias)]],
                   device const float* residual [[buffer(matmul::residual), function_constant(has_residual)]],
                   device float* out [[buffer(matmul::out)]],
                   constant Matmul& params [[buffer(params_buffer)]],
                   uint2 group [[threadgroup_position_in_grid]],
                   uint simdgroup [[simdgroup_index_in_threadgroup]],
                   uint lane [[thread_index_in_simdgroup]]) {
    typedef WeightFormat<Block> Format;
    const uint k = params.k, n = params.n, row = group.y;
    const uint first = (group.x * matmul::kMatvecSimdgroups + simdgroup) * matmul::kMatvecRows;
    if (first >= n) return;
    device const Block* weights[matmul::kMatvecRows];
    for (uint r = 0; r < matmul::kMatvecRows; ++r) {
        weights[r] =
            weight + ulong(min(first + r, n - 1)) * (k / Block::kElements);  // rows past the end are not stored
    }
    x += ulong(row) * k;

    float sums[matmul::kMatvecRows] = {};
    const uint n_chunks = (k + Format::kChunk - 1) / Format::kChunk;
    for (uint chunk = lane; chunk < n_chunks; chunk += kSimdWidth) {
        typename Format::Input input;
        Format::prepare(x, chunk, k, input);
        for (uint r = 0; r < matmul::kMatvecRows; ++r) sums[r] += Format::dot(weights[r], chunk, k, input);
    }
    for (uint r = 0; r < matmul::kMatvecRows; ++r) {
        const float sum = simd_sum(sums[r]);
        if (lane == 0 && first + r < n) store_result(sum, row, first + r, params, bias, residual, out);
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
kernel void matvec_rows(device const float* x [[buffer(matmul::x)]],
                        device const Block* weight [[buffer(matmul::weight)]],
                        device const float* bias [[buffer(matmul::bias), function_constant(has_bias)]],
                        device const float* residual [[buffer(matmul::residual), function_constant(has_residual)]],
                        device float* out [[buffer(matmul::out)]],
                        constant Matmul& params [[buffer(params_buffer)]],
                        constant LaunchSizes& sizes [[buffer(sizes_buffer)]],
                        uint2 group [[threadgroup_position_in_grid]],
                        uint simdgroup [[simdgroup_index_in_threadgroup]],
                        uint lane [[thread_index_in_simdgroup]]) {
    const uint k = params.k, n = params.n, row = group.y * matmul::kMatvecColumns;
    const uint first = (group.x * matmul::kMatvecSimdgroups + simdgroup) * matmul::kMatvecRowsRows;
    if (first >= n) return;
    const uint n_columns = min(sizes.rows - row, matmul::kMatvecColumns);
    x += ulong(row) * k;

    float sums[matmul::kMatvecRowsRows][matmul::kMatvecColumns] = {};
    for (uint begin = 16 * lane; begin < k; begin += 16 * kSimdWidth) {
        float weights[matmul::kMatvecRowsRows][16];
        for (uint r = 0; r < matmul::kMatvecRowsRows; ++r) {
            device const Block* weight_row = weight + ulong(min(first + r, n - 1)) * (k / Block::kElements);
            WeightFormat<Block>::decode(weight_row, begin, k, weights[r]);
        }
#pragma unroll
        for (uint column = 0; column < matmul::kMatvecColumns; ++column) {
            if (column >= n_columns) continue;
            float values[16];
            load_padded<Block>(x + ulong(column) * k, begin, k, values);
            for (uint r = 0; r < matmul::kMatvecRowsRows; ++r) {
                for (uint i = 0; i < 16; ++i) sums[r][column] += weights[r][i] * values[i];
            }
        }
    }
#pragma unroll
    for (uint r = 0; r < matmul::kMatvecRowsRows; ++r) {
#pragma unroll
        for (uint column = 0; column < matmul::kMatvecColumns; ++column) {
            if (column >= n_columns) continue;
            const float sum = simd_sum(sums[r][column]);
            if (lane == 0 && first + r < n) store_result(sum, row + column, first + r, params, bias, residual, out);
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
