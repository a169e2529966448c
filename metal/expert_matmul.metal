// expert_linear for many rows, see csrc/params/expert_linear.h: a threadgroup per tile (product_tile.h) of the slots
// that chose one expert (expert_order.h) and of their outputs.
#include <metal_stdlib>

#include "experts.h"
#include "product_tile.h"

using namespace metal;
using namespace ferrule;

constant bool has_routes [[function_constant(expert_linear::has_routes)]];
constant bool has_bias [[function_constant(expert_linear::has_bias)]];
constant uint fc_weighted [[function_constant(expert_linear::fc_weighted)]];

// Columns [begin, begin + kDepth) of the parts of x that the tile's slots read; zeros outside.
static void load_x(device const float* x,
                   threadgroup const uint* parts,
                   uint n_rows,
                   uint begin,
                   uint k,
                   uint thread_index,
                   threadgroup float* tile) {
    for (uint i = thread_index; i < product_tile::kRows * product_tile::kDepth; i += product_tile::kThreads) {
        const uint r = i / product_tile::kDepth, c = i % product_tile::kDepth;
        const bool inside = r < n_rows && begin + c < k;
        tile[r * product_tile::kStride + c] = inside ? x[ulong(parts[r]) * k + begin + c] : 0.0f;
    }
}

template <class Block>
kernel void expert_matmul(device const float* x [[buffer(expert_linear::x)]],
                          device const float* routes [[buffer(expert_linear::routes), function_constant(has_routes)]],
                          device const uint* order [[buffer(expert_linear::order)]],
                          device const ExpertMatrix<Block>* weight [[buffer(expert_linear::weight)]],
                          device const float* bias [[buffer(expert_linear::bias), function_constant(has_bias)]],
                          device float* out [[buffer(expert_linear::out)]],
                          constant ExpertLinear& params [[buffer(params_buffer)]],
                          constant LaunchSizes& sizes [[buffer(sizes_buffer)]],
                          uint2 group [[threadgroup_position_in_grid]],
                          uint thread_index [[thread_index_in_threadgroup]],
                          uint simdgroup [[simdgroup_index_in_threadgroup]]) {
    typedef typename product_tile::Decoded<Block>::Value Tile;
    threadgroup float x_tile[product_tile::kRows * product_tile::kStride];
    threadgroup Tile weight_tile[product_tile::kColumns * product_tile::kStride];
    threadgroup float out_tile[product_tile::kSize];
    threadgroup uint slots[product_tile::kRows];
    threadgroup uint parts[product_tile::kRows];  // of x
    device const ExpertTile* tiles = (device const ExpertTile*)(order + sizes.rows * params.slots);
    const ExpertTile tile = tiles[group.x];
    const uint k = params.k, n = params.n, column = group.y * product_tile::kColumns, n_rows = tile.end - tile.begin;
    if (n_rows == 0) return;
    if (thread_index < n_rows) {
        slots[thread_index] = order[tile.begin + thread_index];
        parts[thread_index] = part_of(slots[thread_index], params);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);

    const uint weight_row = min(column + product_tile::weight_row_of(thread_index), n - 1);  // no rows past the end
    device const Block* weights = weight[tile.expert].blocks + ulong(weight_row) * (k / Block::kElements);
    product_tile::Sums sums;
    product_tile::clear(sums);
    for (uint begin = 0; begin < k; begin += product_tile::kDepth) {
        load_x(x, parts, n_rows, begin, k, thread_index, x_tile);
        product_tile::load_weights(weights, begin, k, thread_index, weight_tile);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        product_tile::multiply(x_tile, weight_tile, simdgroup, sums);
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    product_tile::store(sums, simdgroup, out_tile);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint i = thread_index; i < n_rows * product_tile::kColumns; i += product_tile::kThreads) {
        const uint slot = slots[i / product_tile::kColumns], c = column + i % product_tile::kColumns;
        if (c >= n) continue;
        float sum = out_tile[i];
        if (has_bias) sum += bias[ulong(tile.expert) * n + c];
        if (fc_weighted != 0) sum *= weight_of(routes, slot, params.slots);
        out[ulong(slot) * n + c] = sum;
    }
}

template [[host_name("expert_matmul_f32")]] kernel decltype(expert_matmul<F32>) expert_matmul<F32>;
template [[host_name("expert_matmul_f16")]] kernel decltype(expert_matmul<F16>) expert_matmul<F16>;
template [[host_name("expert_matmul_bf16")]] kernel decltype(expert_matmul<BF16>) expert_matmul<BF16>;
template [[host_name("expert_matmul_q4_0")]] kernel decltype(expert_matmul<Q4_0>) expert_matmul<Q4_0>;
template [[host_name("expert_matmul_q4_1")]] kernel decltype(expert_matmul<Q4_1>) expert_matmul<Q4_1>;
template [[host_name("expert_matmul_q5_0")]] kernel decltype(expert_matmul<Q5_0>) expert_matmul<Q5_0>;
template [[host_name("expert_matmul_q5_1")]] kernel decltype(expert_matmul<Q5_1>) expert_matmul<Q5_1>;
template [[host_name("expert_matmul_q8_0")]] kernel decltype(expert_matmul<Q8_0>) expert_matmul<Q8_0>;
template [[host_name("expert_matmul_q2_k")]] kernel decltype(expert_matmul<Q2_K>) expert_matmul<Q2_K>;
template [[host_name("expert_matmul_q3_k")]] kernel decltype(expert_matmul<Q3_K>) expert_matmul<Q3_K>;
template [[host_name("expert_matmul_q4_k")]] kernel decltype(expert_matmul<Q4_K>) expert_matmul<Q4_K>;
template [[host_name("expert_matmul_q5_k")]] kernel decltype(expert_matmul<Q5_K>) expert_matmul<Q5_K>;
template [[host_name("expert_matmul_q6_k")]] kernel decltype(expert_matmul<Q6_K>) expert_matmul<Q6_K>;
template [[host_name("expert_matmul_iq1_s")]] kernel decltype(expert_matmul<IQ1_S>) expert_matmul<IQ1_S>;
template [[host_name("expert_matmul_iq1_m")]] kernel decltype(expert_matmul<IQ1_M>) expert_matmul<IQ1_M>;
template [[host_name("expert_matmul_iq2_xxs")]] kernel decltype(expert_matmul<IQ2_XXS>) expert_matmul<IQ2_XXS>;
template [[host_name("expert_matmul_iq2_xs")]] kernel decltype(expert_matmul<IQ2_XS>) expert_matmul<IQ2_XS>;
template [[host_name("expert_matmul_iq2_s")]] kernel decltype(expert_matmul<IQ2_S>) expert_matmul<IQ2_S>;
template [[host_name("expert_matmul_iq3_xxs")]] kernel decltype(expert_matmul<IQ3_XXS>) expert_matmul<IQ3_XXS>;
template [[host_name("expert_matmul_iq3_s")]] kernel decltype(expert_matmul<IQ3_S>) expert_matmul<IQ3_S>;
template [[host_name("expert_matmul_iq4_nl")]] kernel decltype(expert_matmul<IQ4_NL>) expert_matmul<IQ4_NL>;
template [[host_name("expert_matmul_iq4_xs")]] kernel decltype(expert_matmul<IQ4_XS>) expert_matmul<IQ4_XS>;
template [[host_name("expert_matmul_tq1_0")]] kernel decltype(expert_matmul<TQ1_0>) expert_matmul<TQ1_0>;
template [[host_name("expert_matmul_tq2_0")]] kernel decltype(expert_matmul<TQ2_0>) expert_matmul<TQ2_0>;
template [[host_name("expert_matmul_mxfp4")]] kernel decltype(expert_matmul<MXFP4>) expert_matmul<MXFP4>;
template [[host_name("expert_matmul_nvfp4")]] kernel decltype(expert_matmul<NVFP4>) expert_matmul<NVFP4>;
