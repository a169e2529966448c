// rms_norm, see csrc/params/rms_norm.h: one threadgroup per group of a row.
#include <metal_stdlib>

#include "../csrc/params/rms_norm.h"

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

    float sum = 0;
    for (uint i = thread_index; i < width; i += threads.x) sum += x[i] * x[i];
    sum = simd_sum(sum);
    if (lane == 0) partial_sums[simdgroup] = sum;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    sum = simd_sum(lane < simdgroups ? partial_sums[lane] : 0.0f);

    const float factor = precise::rsqrt(sum / float(width) + params.eps);
    for (uint i = thread_index; i < width; i += threads.x) {
        out[i] = x[i] * factor * (has_weight ? params.weight_offset + weight[i] : 1.0f);
    }
}
