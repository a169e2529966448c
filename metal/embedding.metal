// embedding, see csrc/params/embedding.h: a threadgroup per row, a thread per 16 values, of which it reads only its
// own.
#include <metal_stdlib>

#include "../csrc/params/embedding.h"
#include "formats/all.h"
#include "moments.h"

using namespace metal;
using namespace ferrule;

constant bool has_next_weight [[function_constant(embedding::has_next_weight)]];
constant bool has_next [[function_constant(embedding::has_next)]];

template <class Block>
kernel void embed(device const int* tokens [[buffer(embedding::tokens)]],
                  device const Block* table [[buffer(embedding::table)]],
                  device float* out [[buffer(embedding::out)]],
                  device const float* next_weight
                  [[buffer(embedding::next_weight), function_constant(has_next_weight)]],
                  device float* next [[buffer(embedding::next), function_constant(has_next)]],
                  constant Embedding& params [[buffer(params_buffer)]],
                  uint2 group [[threadgroup_position_in_grid]],
                  uint thread_index [[thread_index_in_threadgroup]],
                  uint simdgroup [[simdgroup_index_in_threadgroup]],
                  uint lane [[thread_index_in_simdgroup]],
                  uint2 threads [[threads_per_threadgroup]],
                  uint simdgroups [[simdgroups_per_threadgroup]]) {
    threadgroup float partial_sums[kSimdWidth];
    const uint row = group.y, k = params.k, values_per_thread = embedding::kValuesPerThread;
    const uint begin = thread_index * values_per_thread, step = threads.x * values_per_thread;
    const bool exists = tokens[row] >= 0 && uint(tokens[row]) < params.n;
    out += ulong(row) * k;
    float squares = 0;
    for (uint first = begin; first < k; first += step) {
        float values[embedding::kValuesPerThread];
        if (exists) {
            WeightFormat<Block>::decode(table + ulong(tokens[row]) * (k / Block::kElements), first, k, values);
        } else {
            for (uint i = 0; i < values_per_thread; ++i) values[i] = NAN;
        }
        for (uint i = 0; i < values_per_thread && first + i < k; ++i) {
            const float value = params.scale * values[i];
            out[first + i] = value;
            squares += value * value;
        }
    }
    if (!has_next) return;
    const ThreadPlace place = {thread_index, threads.x, simdgroup, simdgroups, lane};
    const float mean_square = threadgroup_sum(squares, place, partial_sums) / float(k);
    const float factor = precise::rsqrt(mean_square + params.eps);
    for (uint first = begin; first < k; first += step) {
        for (uint i = first; i < min(first + values_per_thread, k); ++i) {
            next[ulong(row) * k + i] =
                out[i] * factor * (has_next_weight ? params.weight_offset + next_weight[i] : 1.0f);
        }
    }
}

template [[host_name("embedding_f32")]] kernel decltype(embed<F32>) embed<F32>;
template [[host_name("embedding_f16")]] kernel decltype(embed<F16>) embed<F16>;
template [[host_name("embedding_bf16")]] kernel decltype(embed<BF16>) embed<BF16>;
template [[host_name("embedding_q4_0")]] kernel decltype(embed<Q4_0>) embed<Q4_0>;
template [[host_name("embedding_q4_1")]] kernel decltype(embed<Q4_1>) embed<Q4_1>;
template [[host_name("embedding_q5_0")]] kernel decltype(embed<Q5_0>) embed<Q5_0>;
template [[host_name("embedding_q5_1")]] kernel decltype(embed<Q5_1>) embed<Q5_1>;
template [[host_name("embedding_q8_0")]] kernel decltype(embed<Q8_0>) embed<Q8_0>;
template [[host_name("embedding_q2_k")]] kernel decltype(embed<Q2_K>) embed<Q2_K>;
template [[host_name("embedding_q3_k")]] kernel decltype(embed<Q3_K>) embed<Q3_K>;
template [[host_name("embedding_q4_k")]] kernel decltype(embed<Q4_K>) embed<Q4_K>;
template [[host_name("embedding_q5_k")]] kernel decltype(embed<Q5_K>) embed<Q5_K>;
template [[host_name("embedding_q6_k")]] kernel decltype(embed<Q6_K>) embed<Q6_K>;
template [[host_name("embedding_iq1_s")]] kernel decltype(embed<IQ1_S>) embed<IQ1_S>;
template [[host_name("embedding_iq1_m")]] kernel decltype(embed<IQ1_M>) embed<IQ1_M>;
template [[host_name("embedding_iq2_xxs")]] kernel decltype(embed<IQ2_XXS>) embed<IQ2_XXS>;
template [[host_name("embedding_iq2_xs")]] kernel decltype(embed<IQ2_XS>) embed<IQ2_XS>;
template [[host_name("embedding_iq2_s")]] kernel decltype(embed<IQ2_S>) embed<IQ2_S>;
template [[host_name("embedding_iq3_xxs")]] kernel decltype(embed<IQ3_XXS>) embed<IQ3_XXS>;
template [[host_name("embedding_iq3_s")]] kernel decltype(embed<IQ3_S>) embed<IQ3_S>;
template [[host_name("embedding_iq4_nl")]] kernel decltype(embed<IQ4_NL>) embed<IQ4_NL>;
template [[host_name("embedding_iq4_xs")]] kernel decltype(embed<IQ4_XS>) embed<IQ4_XS>;
template [[host_name("embedding_tq1_0")]] kernel decltype(embed<TQ1_0>) embed<TQ1_0>;
template [[host_name("embedding_tq2_0")]] kernel decltype(embed<TQ2_0>) embed<TQ2_0>;
template [[host_name("embedding_mxfp4")]] kernel decltype(embed<MXFP4>) embed<MXFP4>;
template [[host_name("embedding_nvfp4")]] kernel decltype(embed<NVFP4>) embed<NVFP4>;
