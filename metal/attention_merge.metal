// attention_merge, see csrc/params/attention_merge.h: a threadgroup per head of a row, a thread per value.
#include <metal_stdlib>

#include "../csrc/params/attention_merge.h"
#include "attention_scores.h"

using namespace metal;
using namespace ferrule;

constant bool has_sinks [[function_constant(attention_merge::has_sinks)]];

kernel void attention_merge(device const float* partials [[buffer(attention_merge::partials)]],
                            device const float* sinks [[buffer(attention_merge::sinks), function_constant(has_sinks)]],
                            device float* out [[buffer(attention_merge::out)]],
                            constant AttentionMerge& params [[buffer(params_buffer)]],
                            uint2 group [[threadgroup_position_in_grid]],
                            uint thread_index [[thread_index_in_threadgroup]],
                            uint2 threads [[threads_per_threadgroup]]) {
    const uint head = group.x, row = group.y, v_head_dim = params.v_head_dim, stride = v_head_dim + 2;
    const ulong index = ulong(row) * params.heads + head;
    partials += index * params.splits * stride;
    out += index * v_head_dim;

    float maximum = -INFINITY;
    if (has_sinks) maximum = sinks[head];
    for (uint split = 0; split < params.splits; ++split) maximum = max(maximum, partials[split * stride + v_head_dim]);
    float sum = 0;
    if (has_sinks) sum = precise::exp(sinks[head] - maximum);
    for (uint split = 0; split < params.splits; ++split) {
        device const float* part = partials + split * stride;
        sum += part[v_head_dim + 1] * rescaling(part[v_head_dim], maximum);
    }
    for (uint i = thread_index; i < v_head_dim; i += threads.x) {
        float value = 0;
        for (uint split = 0; split < params.splits; ++split) {
            device const float* part = partials + split * stride;
            if (part[v_head_dim + 1] == 0.0f) continue;  // no positions: its values are not written
            value += part[i] * rescaling(part[v_head_dim], maximum);
        }
        out[i] = value / sum;
    }
}
