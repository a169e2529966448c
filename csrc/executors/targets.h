// CPU targets: an instruction set, whether this processor has it, and its kernels.
#pragma once
#include <span>
#include <string_view>

#include "../cpu/registry.h"

namespace ferrule::cpu {

struct Target {
    const char* name;
    bool (*supported)();
    KernelTable (*kernels)();

    // Throws std::invalid_argument naming the kernel.
    const Kernel& kernel(std::string_view kernel_name) const;
};

// Every target that this build has, best first. The last one runs everywhere.
std::span<const Target> all_targets();

// Throws std::invalid_argument when there is no such target or this processor cannot run it.
const Target& find_target(std::string_view name);

}  // namespace ferrule::cpu
