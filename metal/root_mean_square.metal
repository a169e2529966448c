// root_mean_square, see csrc/params/root_mean_square.h: a threadgroup per row.
#include <metal_stdlib>

#include "../csrc/params/root_mean_square.h"
#include "moments.h"

using namespace metal;
using namespace ferrule;

kernel void root_mean_square(device const float* x [[buffer(root_mean_square::x)]],
                             device float* out [[buffer(root_mean_square::out)]],
                             constant RootMeanSquare& params [[buffer(params_buffer)]],
                             uint2 group [[threadgroup_position_in_grid]],
                             uint thread_index [[thread_index_in_threadgroup]],
                             uint simdgroup [[simdgroup_index_in_threadgroup]],
                             uint lane [[thread_index_in_simdgroup]],
                             uint2 threads [[threads_per_threadgroup]],
                             uint simdgroups [[simdgroups_per_threadgroup]]) {
    threadgroup float partial_sums[kSimdWidth];
    const ThreadPlace place = {thread_index, threads.x, simdgroup, simdgroups, lane};
    const float mean = mean_square(x + ulong(group.y) * params.width, params.width, place, partial_sums);
    if (place.index == 0) out[group.y] = precise::sqrt(mean);
}
