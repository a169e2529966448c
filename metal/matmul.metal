// matmul, see csrc/params/linears.h: for many rows of x, a threadgroup per tile of the result (product_tile.h) or,
// split, several.
#include <metal_stdlib>

#include "linears.h"
#include "product_tile.h"

using namespace metal;
using namespace ferrule;

constant bool has_weight_b [[function_constant(linears::has_weight_b)]];
constant bool has_partials [[function_constant(linears::has_partials)]];

// Rows [row, ...) and columns [begin, begin + kDepth) of x; zeros outside.
static void load_x(device const float* x,
                   uint row,
                   uint n_rows,
                   uint begin,
                   uint k,
                   uint thread_index,
                   threadgroup float* tile) {
    for (uint i = thread_index; i < product_tile::kRows * product_tile::kDepth; i += product_tile::kThreads) {
        const uint r = i / product_tile::kDepth, c = i % product_tile::kDepth;
        const bool inside = row + r < n_rows && begin + c < k;
        tile[r * product_tile::kStride + c] = inside ? x[ulong(row + r) * k + begin + c] : 0.0f;
    }
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
                          device const float* up [[buffer(linears::up), function_constant(has_up)]],
                          device float* partials [[buffer(linears::partials), function_constant(has_partials)]],
                          constant Linears& params [[buffer(params_buffer)]],
                          constant LaunchSizes& sizes [[buffer(sizes_buffer)]],
                          uint3 group [[threadgroup_position_in_grid]],
                          uint3 groups [[threadgroups_per_grid]],
                          uint thread_index [[thread_index_in_threadgroup]],
                          uint simdgroup [[simdgroup_index_in_threadgroup]]) {
    typedef typename product_tile::Decoded<Block>::Value Tile;
    threadgroup float x_tile[product_tile::kRows * product_tile::kStride];
    threadgroup Tile weight_tile[product_tile::kColumns * product_tile::kStride];
    threadgroup float out_tile[product_tile::kSize];
    const uint k = params.k, row = group.x * product_tile::kRows;
    const LinearTile<Block> tile =
        find_tile<Block>(group.y, product_tile::kColumns, {weight, has_bias ? bias : nullptr, out, params.n},
                         {weight_b, has_bias_b ? bias_b : nullptr, out_b, params.n_b},
                         {weight_c, has_bias_c ? bias_c : nullptr, out_c, params.n_c});
    device const Block* weights =
        weight_row(tile, product_tile::weight_row_of(thread_index), product_tile::kColumns, k / Block::kElements);
    const uint depth = linears::split_depth(k, groups.z), end = min((group.z + 1) * depth, k);
    product_tile::Sums sums;
    product_tile::clear(sums);
    for (uint begin = group.z * depth; begin < end; begin += product_tile::kDepth) {
        load_x(x, row, sizes.rows, begin, k, thread_index, x_tile);
        product_tile::load_weights(weights, begin, k, thread_index, weight_tile);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        product_tile::multiply(x_tile, weight_tile, simdgroup, sums);
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    if (has_partials && groups.z > 1) {
        const uint part = (group.z * groups.y + group.y) * groups.x + group.x;
        product_tile::store(sums, simdgroup, partials + part * product_tile::kSize);
        return;
    }
    product_tile::store(sums, simdgroup, out_tile);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    const uint columns = result_columns(product_tile::kColumns);
    for (uint i = thread_index; i < product_tile::kRows * columns; i += product_tile::kThreads) {
        const uint r = i / columns, c = i % columns, column = tile.first + c;
        if (row + r >= sizes.rows || column >= tile.linear.n) continue;
        threadgroup const float* found = out_tile + r * product_tile::kColumns + c;
        store_result(tile, row + r, column, found[0], fc_gated ? found[columns] : 0.0f, params, residual, up);
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
