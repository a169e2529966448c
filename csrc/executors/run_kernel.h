// One kernel alone, for tests and measurements.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "../cpu/kernel.h"

namespace ferrule::cpu {

struct ItemRange {
    uint32_t begin;
    uint32_t end;
};

// Runs the work items in the given ranges and their order, or all of them at once. Returns the number of items.
// Throws std::invalid_argument when operands or parameters do not fit the kernel's signature.
uint32_t run_kernel(const Kernel& kernel, std::span<void* const> operands, std::span<const std::byte> params,
                    uint32_t rows, const Dims& dims, const std::optional<std::span<const ItemRange>>& split);

}  // namespace ferrule::cpu
