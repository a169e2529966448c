// rope, see csrc/params/rope.h: a thread per pair, and per value beyond the pairs, of a head of a row.
#include <metal_stdlib>

#include "../csrc/params/rope.h"
#include "rope_pairs.h"

using namespace metal;
using namespace ferrule;

constant uint fc_pairing [[function_constant(rope::fc_pairing)]];

kernel void rope(device const float* x [[buffer(rope::x)]],
                 device const float* table [[buffer(rope::table)]],
                 device float* out [[buffer(rope::out)]],
                 constant Rope& params [[buffer(params_buffer)]],
                 uint2 group [[threadgroup_position_in_grid]],
                 uint thread_index [[thread_index_in_threadgroup]],
                 uint2 threads [[threads_per_threadgroup]]) {
    const uint head = group.x, row = group.y, n = params.n_pairs;
    const ulong begin = (ulong(row) * params.heads + head) * params.head_dim;
    x += begin;
    out += begin;
    device const float* cosines = table + ulong(row) * 2 * n;
    for (uint i = thread_index; i < params.head_dim - n; i += threads.x) {
        if (i < n) {
            const RopePair pair = rope_pair(fc_pairing, i, n);
            const float2 rotated = rotate(x[pair.first], x[pair.second], cosines[i], cosines[n + i]);
            out[pair.first] = rotated.x;
            out[pair.second] = rotated.y;
        } else {
            out[n + i] = x[n + i];
        }
    }
}
