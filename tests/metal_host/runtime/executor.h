// Runs dispatches of translated kernels: a fiber per thread of one threadgroup at a time; barriers and simdgroup
// operations are meeting points of fibers.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "checker.h"
#include "fiber.h"
#include "kernel_abi.h"

namespace metal_host {

struct Size {
    uint32_t x = 1, y = 1, z = 1;
};

struct DispatchOptions {
    uint32_t seed = 0;        // order of threadgroups, simdgroups and lanes: 0 ascending, 1 descending, else shuffled
    bool checked = false;     // the kernel comes from a checked library
    bool concurrent = false;  // not ordered after the dispatch before
    std::span<const Binding> reachable = {};  // what the kernel may read through addresses in its buffers
};

// Runs `kernel` to the end. Returns what went wrong, empty if nothing did. Not reentrant; calls are serialised.
std::string dispatch(const Kernel& kernel, const Arguments& arguments, const Size& threadgroups, const Size& threads,
                     const DispatchOptions& options);

// Every load and store of a checked kernel comes here.
void check_access(const Access& access);

}  // namespace metal_host
