// layer_norm, see csrc/params/layer_norm.h: a threadgroup per group of a row.
#include <metal_stdlib>

#include "../csrc/params/layer_norm.h"
#include "moments.h"

using namespace metal;
using namespace ferrule;

constant bool has_weight [[function_constant(layer_norm::has_weight)]];
constant bool has_bias [[function_constant(layer_norm::has_bias)]];

kernel void layer_norm(device const float* x [[buffer(layer_norm::x)]],
                       device const float* weight [[buffer(layer_norm::weight), function_constant(has_weight)]],
                       device const float* bias [[buffer(layer_norm::bias), function_constant(has_bias)]],
                       device float* out [[buffer(layer_norm::out)]],
                       constant LayerNorm& params [[buffer(params_buffer)]],
                       uint2 group [[threadgroup_position_in_grid]],
                       uint thread_index [[thread_index_in_threadgroup]],
                       uint simdgroup [[simdgroup_index_in_threadgroup]],
                       uint lane [[thread_index_in_simdgroup]],
                       uint2 threads [[threads_per_threadgroup]],
                       uint simdgroups [[simdgroups_per_threadgroup]]) {
    threadgroup float partial_sums[2 * kSimdWidth];
    const uint width = params.width;
    const ulong begin = (ulong(group.y) * params.groups + group.x) * width;
    x += begin;
    out += begin;
    const ThreadPlace place = {thread_index, threads.x, simdgroup, simdgroups, lane};
    const Moments of_x = moments(x, width, place, partial_sums);
    const float factor = precise::rsqrt(of_x.variance + params.eps);
    for (uint i = place.index; i < width; i += place.threads) {
        float result = (x[i] - of_x.mean) * factor;
        if (has_weight) result *= params.weight_offset + weight[i];
        if (has_bias) result += bias[i];
        out[i] = result;
    }
}
