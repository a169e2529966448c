// keep_outliers, see csrc/params/keep_outliers.h: a threadgroup per row.
#include <metal_stdlib>

#include "../csrc/params/keep_outliers.h"
#include "moments.h"

using namespace metal;
using namespace ferrule;

kernel void keep_outliers(device const float* x [[buffer(keep_outliers::x)]],
                          device float* out [[buffer(keep_outliers::out)]],
                          constant KeepOutliers& params [[buffer(params_buffer)]],
                          uint2 group [[threadgroup_position_in_grid]],
                          uint thread_index [[thread_index_in_threadgroup]],
                          uint simdgroup [[simdgroup_index_in_threadgroup]],
                          uint lane [[thread_index_in_simdgroup]],
                          uint2 threads [[threads_per_threadgroup]],
                          uint simdgroups [[simdgroups_per_threadgroup]]) {
    threadgroup float partial_sums[2 * kSimdWidth];
    x += ulong(group.y) * params.width;
    out += ulong(group.y) * params.width;
    const ThreadPlace place = {thread_index, threads.x, simdgroup, simdgroups, lane};
    const Moments of_x = moments(x, params.width, place, partial_sums);
    const float cutoff = of_x.mean + params.deviations * precise::sqrt(of_x.variance);
    for (uint i = place.index; i < params.width; i += place.threads) out[i] = max(x[i] - cutoff, 0.0f);
}
