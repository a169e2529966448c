// Means over runs of values that a threadgroup goes over together.
#pragma once
#include <metal_stdlib>

#include "../csrc/params/metal_dispatch.h"

namespace ferrule {

// A thread's place in its threadgroup.
struct ThreadPlace {
    uint index, threads;
    uint simdgroup, simdgroups, lane;
};

// The sum of all threads' values; partial_sums [kSimdWidth] belongs to this sum alone.
inline float threadgroup_sum(float value, ThreadPlace place, threadgroup float* partial_sums) {
    value = metal::simd_sum(value);
    if (place.lane == 0) partial_sums[place.simdgroup] = value;
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    return metal::simd_sum(place.lane < place.simdgroups ? partial_sums[place.lane] : 0.0f);
}

// Of x [width]; partial_sums: [kSimdWidth].
inline float mean_square(device const float* x, uint width, ThreadPlace place, threadgroup float* partial_sums) {
    float sum = 0;
    for (uint i = place.index; i < width; i += place.threads) sum += x[i] * x[i];
    return threadgroup_sum(sum, place, partial_sums) / float(width);
}

struct Moments {
    float mean, variance;
};

// Of x [width]; partial_sums: [2, kSimdWidth]. The variance is a mean of squared distances from the mean, which does
// not cancel.
inline Moments moments(device const float* x, uint width, ThreadPlace place, threadgroup float* partial_sums) {
    float sum = 0, squares = 0;
    for (uint i = place.index; i < width; i += place.threads) sum += x[i];
    const float mean = threadgroup_sum(sum, place, partial_sums) / float(width);
    for (uint i = place.index; i < width; i += place.threads) squares += (x[i] - mean) * (x[i] - mean);
    return Moments{mean, threadgroup_sum(squares, place, partial_sums + kSimdWidth) / float(width)};
}

}  // namespace ferrule
