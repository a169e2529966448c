// expert_sum: the sum over a row's slots, each times its weight. One work item per row.
#include "../params/expert_sum.h"

#include "kernel.h"

namespace ferrule::cpu::FERRULE_ISA {

namespace {

uint32_t items(const KernelArgs& args) {
    return args.rows;
}

void run(const KernelArgs& args, uint32_t begin, uint32_t end, std::byte*) {
    const auto [width, slots, weighted] = args.as<ExpertSum>();
    for (size_t row = begin; row < end; ++row) {
        const float* x = args.operand<const float>(expert_sum::x) + row * slots * width;
        const float* weights = args.operand<const float>(expert_sum::routes) + row * 2 * slots + slots;
        const float* residual = args.operand<const float>(expert_sum::residual);
        float* out = args.operand<float>(expert_sum::out) + row * width;
        for (uint32_t slot = 0; slot < slots; ++slot, x += width) {
            const float weight = weighted != 0 ? weights[slot] : 1.0f;
            if (slot == 0) {
                for (uint32_t i = 0; i < width; ++i) out[i] = x[i] * weight;
            } else {
                for (uint32_t i = 0; i < width; ++i) out[i] += x[i] * weight;
            }
        }
        if (residual != nullptr) {
            for (uint32_t i = 0; i < width; ++i) out[i] += residual[row * width + i];
        }
    }
}

constexpr Kernel kKernels[] = {{"expert_sum", &expert_sum::signature, items, nullptr, run}};

}  // namespace

std::span<const Kernel> expert_sum_kernels() {
    return kKernels;
}

}  // namespace ferrule::cpu::FERRULE_ISA
