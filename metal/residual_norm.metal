// residual_norm, see csrc/params/residual_norm.h: one threadgroup per row. A thread reads only what it wrote itself.
#include <metal_stdlib>

#include "../csrc/params/residual_norm.h"
#include "moments.h"

using namespace metal;
using namespace ferrule;

constant bool has_weight [[function_constant(residual_norm::has_weight)]];
constant bool has_next_weight [[function_constant(residual_norm::has_next_weight)]];
constant bool has_next [[function_constant(residual_norm::has_next)]];

kernel void residual_norm(device const float* x [[buffer(residual_norm::x)]],
                          device const float* weight [[buffer(residual_norm::weight), function_constant(has_weight)]],
                          device const float* residual [[buffer(residual_norm::residual)]],
                          device float* out [[buffer(residual_norm::out)]],
                          device const float* next_weight
                          [[buffer(residual_norm::next_weight), function_constant(has_next_weight)]],
                          device float* next [[buffer(residual_norm::next), function_constant(has_next)]],
                          constant ResidualNorm& params [[buffer(params_buffer)]],
                          uint2 group [[threadgroup_position_in_grid]],
                          uint thread_index [[thread_index_in_threadgroup]],
                          uint simdgroup [[simdgroup_index_in_threadgroup]],
                          uint lane [[thread_index_in_simdgroup]],
                          uint2 threads [[threads_per_threadgroup]],
                          uint simdgroups [[simdgroups_per_threadgroup]]) {
    threadgroup float partial_sums[kSimdWidth], next_partial_sums[kSimdWidth];
    const uint width = params.width;
    const ulong begin = ulong(group.y) * width;
    const ThreadPlace place = {thread_index, threads.x, simdgroup, simdgroups, lane};

    const float factor = precise::rsqrt(mean_square(x + begin, width, place, partial_sums) + params.eps);
    for (uint i = place.index; i < width; i += place.threads) {
        const float normed = x[begin + i] * factor * (has_weight ? params.weight_offset + weight[i] : 1.0f);
        out[begin + i] = params.factor * (residual[begin + i] + normed);
    }
    if (!has_next) return;
    const float next_factor = precise::rsqrt(mean_square(out + begin, width, place, next_partial_sums) + params.eps);
    for (uint i = place.index; i < width; i += place.threads) {
        next[begin + i] =
            out[begin + i] * next_factor * (has_next_weight ? params.weight_offset + next_weight[i] : 1.0f);
    }
}
