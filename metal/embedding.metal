// embedding, see csrc/params/embedding.h: a thread per 16 values of a row.
#include <metal_stdlib>

#include "../csrc/params/embedding.h"
#include "weight_formats.h"

using namespace metal;
using namespace ferrule;

template <class Block>
kernel void embed(device const int* tokens [[buffer(embedding::tokens)]],
                  device const Block* table [[buffer(embedding::table)]],
                  device float* out [[buffer(embedding::out)]],
                  constant Embedding& params [[buffer(params_buffer)]],
                  uint2 position [[thread_position_in_grid]]) {
    const uint first = position.x * embedding::kValuesPerThread, row = position.y, k = params.k;
    if (first >= k) return;
    float values[embedding::kValuesPerThread];
    const bool exists = tokens[row] >= 0 && uint(tokens[row]) < params.n;
    if (exists) {
        WeightFormat<Block>::decode(table + ulong(tokens[row]) * (k / Block::kElements), first, k, values);
    } else {
        for (uint i = 0; i < embedding::kValuesPerThread; ++i) values[i] = NAN;
    }
    for (uint i = 0; i < embedding::kValuesPerThread && first + i < k; ++i) {
        out[ulong(row) * k + first + i] = params.scale * values[i];
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
template [[host_name("embedding_q4_k")]] kernel decltype(embed<Q4_K>) embed<Q4_K>;
template [[host_name("embedding_q5_k")]] kernel decltype(embed<Q5_K>) embed<Q5_K>;
template [[host_name("embedding_q6_k")]] kernel decltype(embed<Q6_K>) embed<Q6_K>;
