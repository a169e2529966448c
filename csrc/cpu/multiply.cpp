// multiply: out[r, i] = x[r, i] * factors[r * factor_stride + i / group]. One work item per row.
#include "../params/multiply.h"

#include "kernel.h"

namespace ferrule::cpu::FERRULE_ISA {

namespace {

uint32_t items(const KernelArgs& args) {
    return args.rows;
}

void run(const KernelArgs& args, uint32_t begin, uint32_t end, std::byte*) {
    const Multiply& params = args.as<Multiply>();
    for (size_t row = begin; row < end; ++row) {
        const float* x = args.operand<const float>(multiply::x) + row * params.width;
        const float* factors = args.operand<const float>(multiply::factors) + row * params.factor_stride;
        float* out = args.operand<float>(multiply::out) + row * params.width;
        if (params.group == 1) {
            for (uint32_t i = 0; i < params.width; ++i) out[i] = x[i] * factors[i];
        } else {
            for (uint32_t first = 0, g = 0; first < params.width; first += params.group, ++g)
                for (uint32_t i = first; i < first + params.group; ++i) out[i] = x[i] * factors[g];
        }
    }
}

constexpr Kernel kKernels[] = {{"multiply", &multiply::signature, items, nullptr, run}};

}  // namespace

std::span<const Kernel> multiply_kernels() {
    return kKernels;
}

}  // namespace ferrule::cpu::FERRULE_ISA
