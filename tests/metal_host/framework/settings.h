// What tests may set before a device is made; through ctypes, so a C interface.
#pragma once
#include <stdint.h>

namespace metal_host {

struct Settings {
    uint32_t seed = 0;         // order of unordered dispatches, threadgroups, simdgroups and lanes, see executor.h
    uint32_t checked = 0;      // load <library>.checked in place of <library>, and watch it
    uint32_t gpu_family = 9;   // the newest MTLGPUFamilyApple that the device supports
    uint32_t max_threads = 0;  // per threadgroup, of every pipeline; 0: as the kernel says
    uint64_t max_buffer_bytes = uint64_t{1} << 34;
};

extern "C" void metal_host_configure(const Settings* settings);

}  // namespace metal_host
