// attention_merge, see csrc/params/attention_merge.h: a threadgroup per head of a row or, where the row is normalised,
// for all its heads.
#include <metal_stdlib>

#include "../csrc/params/attention_merge.h"
#include "attention_scores.h"
#include "moments.h"

using namespace metal;
using namespace ferrule;

constant bool has_sinks [[function_constant(attention_merge::has_sinks)]];
constant bool has_weight [[function_constant(attention_merge::has_weight)]];
constant bool fc_normed [[function_constant(attention_merge::fc_normed)]];

// Value i of a head from its partials [splits, v_head_dim + 2] and, if it has one, its sink.
static float merge(device const float* partials, float sink, uint i, constant AttentionMerge& params) {
    const uint v_head_dim = params.v_head_dim, stride = v_head_dim + 2;
    float maximum = has_sinks ? sink : -INFINITY;
    for (uint split = 0; split < params.splits; ++split) maximum = max(maximum, partials[split * stride + v_head_dim]);
    float sum = has_sinks ? precise::exp(sink - maximum) : 0.0f, value = 0;
    for (uint split = 0; split < params.splits; ++split) {
        device const float* part = partials + split * stride;
        if (part[v_head_dim + 1] == 0.0f) continue;  // no positions: its values are not written
        const float factor = rescaling(part[v_head_dim], maximum);
        sum += part[v_head_dim + 1] * factor;
        value += part[i] * factor;
    }
    return value / sum;
}

kernel void attention_merge(device const float* partials [[buffer(attention_merge::partials)]],
                            device const float* sinks [[buffer(attention_merge::sinks), function_constant(has_sinks)]],
                            device const float* weight
                            [[buffer(attention_merge::weight), function_constant(has_weight)]],
                            device float* out [[buffer(attention_merge::out)]],
                            constant AttentionMerge& params [[buffer(params_buffer)]],
                            uint2 group [[threadgroup_position_in_grid]],
                            uint thread_index [[thread_index_in_threadgroup]],
                            uint simdgroup [[simdgroup_index_in_threadgroup]],
                            uint lane [[thread_index_in_simdgroup]],
                            uint2 threads [[threads_per_threadgroup]],
                            uint simdgroups [[simdgroups_per_threadgroup]]) {
    threadgroup float partial_sums[kSimdWidth];
    const uint v_head_dim = params.v_head_dim, width = (fc_normed ? params.heads : 1) * v_head_dim;
    const ulong first_head = ulong(group.y) * params.heads + group.x;
    out += first_head * v_head_dim;
    for (uint i = thread_index; i < width; i += threads.x) {
        const uint head = i / v_head_dim;
        float sink = 0;
        if (has_sinks) sink = sinks[group.x + head];
        device const float* of_head = partials + (first_head + head) * params.splits * (v_head_dim + 2);
        out[i] = merge(of_head, sink, i % v_head_dim, params);
    }
    if (!fc_normed) return;
    const ThreadPlace place = {thread_index, threads.x, simdgroup, simdgroups, lane};
    const float factor = precise::rsqrt(mean_square(out, width, place, partial_sums) + params.eps);
    for (uint i = thread_index; i < width; i += threads.x) {
        out[i] = out[i] * factor * (has_weight ? params.weight_offset + weight[i] : 1.0f);
    }
}
