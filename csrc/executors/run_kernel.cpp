#include "run_kernel.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>

#include "../plan/plan.h"
#include "fenced_memory.h"

namespace ferrule::cpu {

uint32_t run_kernel(const Kernel& kernel, std::span<void* const> operands, std::span<const std::byte> params,
                    uint32_t rows, const Dims& dims, const std::optional<std::span<const ItemRange>>& split) {
    const OpSignature& signature = *kernel.signature;
    const std::string name = kernel.name;
    if (operands.size() != signature.operands.size()) {
        throw std::invalid_argument(name + " has " + std::to_string(signature.operands.size()) + " operands, not " +
                                    std::to_string(operands.size()));
    }
    for (size_t i = 0; i < operands.size(); ++i) {
        if (operands[i] == nullptr && !signature.operands[i].optional) {
            throw std::invalid_argument(name + " needs operand " + signature.operands[i].name);
        }
    }
    if (params.size() != signature.params_bytes) {
        throw std::invalid_argument(name + " has " + std::to_string(signature.params_bytes) +
                                    " bytes of parameters, not " + std::to_string(params.size()));
    }
    alignas(16) std::array<std::byte, kMaxParamsBytes> aligned_params;
    std::copy(params.begin(), params.end(), aligned_params.begin());
    const KernelArgs args{operands.data(), aligned_params.data(), rows, dims};
    const uint32_t items = rows > 0 ? kernel.items(args) : 0;

    // An executor's memory at its worst: full of what other launches left there, and nothing behind it.
    const size_t needed = kernel.scratch_bytes != nullptr ? std::max(kernel.scratch_bytes(args), kZeroedScratch) : 0;
    const size_t scratch_bytes = (needed + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
    const FencedMemory scratch(scratch_bytes);
    std::fill_n(scratch.data(), scratch_bytes, std::byte{0xff});
    std::fill_n(scratch.data(), std::min(scratch_bytes, kZeroedScratch), std::byte{0});
    const ItemRange all{0, items};
    for (const ItemRange& range : split.value_or(std::span(&all, 1))) {
        if (range.begin > range.end || range.end > items) {
            throw std::invalid_argument(name + " has " + std::to_string(items) + " work items, not " +
                                        std::to_string(range.begin) + " to " + std::to_string(range.end));
        }
        if (range.begin < range.end) kernel.run(args, range.begin, range.end, scratch.data());
    }
    return items;
}

}  // namespace ferrule::cpu
