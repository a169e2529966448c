// What host and Metal kernels agree on beside an op's own header.
//
// Operands are bound to buffers by their place in the signature; parameters and LaunchSizes follow in the buffers
// below. A function constant has a meaning by its name: has_<operand> tells whether an optional operand is bound,
// fc_<field> holds the value of that field of the parameters. The host sets those that a kernel has.
#pragma once
#include "../constant.h"
#include "signature.h"

#ifndef __METAL_VERSION__
#include <algorithm>
#endif

namespace ferrule {

enum MetalBuffer { params_buffer = 29, sizes_buffer = 30 };

struct LaunchSizes {
    uint32_t rows;  // of the launch
    uint32_t sequences;
};

FERRULE_CONSTANT uint32_t kSimdWidth = 32;  // threads of a simdgroup

inline constexpr uint32_t ceil_div(uint32_t a, uint32_t b) {
    return (a + b - 1) / b;
}

#ifndef __METAL_VERSION__

// Threadgroups in x, y and z, threads in each, and bytes of threadgroup memory bound at index 0 (none: 0). Where x is
// 0, there is nothing to run.
struct MetalDispatch {
    uint32_t x = 1, y = 1, z = 1;
    uint32_t threads = kSimdWidth;
    uint32_t threadgroup_bytes = 0;
};

// Ops that work on values one by one: a thread per value, a row of threadgroups per row.
inline constexpr MetalDispatch elementwise_dispatch(uint32_t width, const LaunchSizes& sizes) {
    constexpr uint32_t kThreads = 256;
    return {.x = ceil_div(width, kThreads), .y = sizes.rows, .threads = kThreads};
}

// Ops that sum over runs of `width` values: a threadgroup for each of a row's `groups`, about four values per thread.
inline constexpr MetalDispatch reduction_dispatch(uint32_t width, uint32_t groups, const LaunchSizes& sizes) {
    const uint32_t simdgroups = std::clamp(ceil_div(width, 4 * kSimdWidth), 1u, 32u);
    return {.x = groups, .y = sizes.rows, .threads = simdgroups * kSimdWidth};
}

#endif

}  // namespace ferrule
