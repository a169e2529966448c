// The kernel table of csrc/params/metal_kernels.h for Python, through ctypes.
#include <algorithm>
#include <cstdint>
#include <string>

#include "../../csrc/params/metal_kernels.h"

extern "C" {

// Names of kernels and their ops, "name op" a line each.
const char* kernel_table() {
    static const std::string lines = [] {
        std::string text;
        for (const ferrule::MetalKernel& kernel : ferrule::metal_kernels()) {
            text += kernel.name + " " + kernel.signature->op + "\n";
        }
        return text;
    }();
    return lines.c_str();
}

// Threadgroups in x, y and z, threads in each and bytes of threadgroup memory, into `geometry`.
void kernel_geometry(const char* name, const void* params, uint32_t rows, uint32_t sequences, uint32_t* geometry) {
    const auto& table = ferrule::metal_kernels();
    const auto kernel =
        std::find_if(table.begin(), table.end(), [&](const auto& candidate) { return candidate.name == name; });
    const ferrule::MetalDispatch dispatch = kernel->dispatch(params, {rows, sequences});
    const uint32_t values[] = {dispatch.x, dispatch.y, dispatch.z, dispatch.threads, dispatch.threadgroup_bytes};
    std::copy(std::begin(values), std::end(values), geometry);
}

}  // extern "C"
