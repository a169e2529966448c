// expert_linear for many rows, see csrc/params/expert_linear.h: a threadgroup computes kTileN outputs of a tile of
// slots that chose one expert (expert_order.h); weights are decoded into threadgroup memory, kTileK at a time, and
// multiplied as 8 x 8 matrices. Each of the four simdgroups has 16 slots and 32 outputs of the tile.
#include <metal_stdlib>

#include "experts.h"
#include "formats/all.h"

using namespace metal;
using namespace ferrule;

constant bool has_routes [[function_constant(expert_linear::has_routes)]];
constant bool has_bias [[function_constant(expert_linear::has_bias)]];
constant uint fc_weighted [[function_constant(expert_linear::fc_weighted)]];

constant constexpr uint kTileRows = expert_order::kTileRows, kTileN = expert_linear::kTileN;
constant constexpr uint kTileK = expert_linear::kTileK, kThreads = expert_linear::kMatmulThreads;
constant constexpr uint kXStride = kTileK + 4;       // of rows of the x tile, against bank conflicts
constant constexpr uint kWeightStride = kTileK + 8;  // of rows of the weight tile

// Columns [begin, begin + kTileK) of the parts of x that the tile's slots read; zeros outside.
static void load_x(device const float* x,
                   threadgroup const uint* parts,
                   uint n_rows,
                   uint begin,
                   uint k,
                   uint thread_index,
                   threadgroup float* tile) {
    for (uint i = thread_index; i < kTileRows * kTileK; i += kThreads) {
        const uint r = i / kTileK, c = i % kTileK;
        const bool inside = r < n_rows && begin + c < k;
        tile[r * kXStride + c] = inside ? x[ulong(parts[r]) * k + begin + c] : 0.0f;
    }
}

// Columns [begin, begin + kTileK) of the weights' rows [column, ...); two threads per row.
template <class Block, class Tile>
static void load_weights(device const Block* blocks,
                         uint column,
                         uint n,
                         uint begin,
                         uint k,
                         uint thread_index,
                         threadgroup Tile* tile) {
    const uint r = thread_index / 2, c = thread_index % 2 * 16;
    float values[16] = {};
    if (begin + c < k) {
        device const Block* row = blocks + ulong(min(column + r, n - 1)) * (k / Block::kElements);
        WeightFormat<Block>::decode(row, begin + c, k, values);
    }
    for (uint i = 0; i < 16; ++i) tile[r * kWeightStride + c + i] = Tile(values[i]);
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
    typedef typename WeightFormat<Block>::Tile Tile;
    threadgroup float x_tile[kTileRows * kXStride];
    threadgroup Tile weight_tile[kTileN * kWeightStride];
    threadgroup float out_tile[kTileRows * kTileN];
    threadgroup uint slots[kTileRows];
    threadgroup uint parts[kTileRows];  // of x
    device const ExpertTile* tiles = (device const ExpertTile*)(order + sizes.rows * params.slots);
    const ExpertTile tile = tiles[group.x];
    const uint k = params.k, n = params.n, column = group.y * kTileN, n_rows = tile.end - tile.begin;
    if (n_rows == 0) return;
    if (thread_index < n_rows) {
        slots[thread_index] = order[tile.begin + thread_index];
        parts[thread_index] = part_of(slots[thread_index], params);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);

    const uint my_row = simdgroup / 2 * 16, my_column = simdgroup % 2 * 32;
    simdgroup_float8x8 sums[2][4];
    for (uint i = 0; i < 2; ++i) {
        for (uint j = 0; j < 4; ++j) sums[i][j] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    }
    for (uint begin = 0; begin < k; begin += kTileK) {
        load_x(x, parts, n_rows, begin, k, thread_index, x_tile);
        load_weights(weight[tile.expert].blocks, column, n, begin, k, thread_index, weight_tile);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint c = 0; c < kTileK; c += 8) {
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
            simdgroup_store(sums[i][j], out_tile + (my_row + 8 * i) * kTileN + my_column + 8 * j, kTileN);
        }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint i = thread_index; i < n_rows * kTileN; i += kThreads) {
        const uint slot = slots[i / kTileN], c = column + i % kTileN;
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
