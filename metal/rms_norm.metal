// rms_norm, see csrc/params/rms_norm.h: a threadgroup per group of a row.
#include <metal_stdlib>

#include "../csrc/params/rms_norm.h"
#include "moments.h"

using namespace metal;
using namespace ferrule;

constant bool has_weight [[function_constant(rms_norm::has_weight)]];

kernel void rms_norm(device const float* x [[buffer(rms_norm::x)]],
                     device const float* weight [[buffer(rms_norm::weight), function_constant(has_weight)]],
                     device float* out [[buffer(rms_norm::out)]],
                     constant RmsNorm& params [[buffer(params_buffer)]],
                     uint2 group [[threadgroup_position_in_grid]],
                     uint thread_index [[thread_index_in_threadgroup]],
                     uint simdgroup [[simdgroup_index_in_threadgroup]],
                     uint lane [[thread_index_in_simdgroup]],
                     uint2 threads [[threads_per_threadgroup]],
                     uint simdgroups [[simdgroups_per_threadgroup]]) {
    threadgroup float partial_sums[kSimdWidth];
    const uint width = params.width;
    const ulong begin = (ulong(group.y) * params.groups + group.x) * width;
    x += begin;
    out += begin;
    const ThreadPlace place = {thread_index, threads.x, simdgroup, simdgroups, lane};
    const float factor = precise::rsqrt(mean_square(x, width, place, partial_sums) + params.eps);
    for (uint i = place.index; i < width; i += place.threads) {
        out[i] = x[i] * factor * (has_weight ? params.weight_offset + weight[i] : 1.0f);
    }
}
