// scale_by_position: out = x * (1 + beta * log(1 + floor((position + offset) / period))). One work item per row.
#include "../params/scale_by_position.h"

#include <math.h>

#include "kernel.h"

namespace ferrule::cpu::FERRULE_ISA {

namespace {

uint32_t items(const KernelArgs& args) {
    return args.rows;
}

void run(const KernelArgs& args, uint32_t begin, uint32_t end, std::byte*) {
    const ScaleByPosition& params = args.as<ScaleByPosition>();
    const int32_t* positions = args.operand<const int32_t>(scale_by_position::positions);
    for (size_t row = begin; row < end; ++row) {
        const double position = static_cast<double>(positions[row]) + static_cast<double>(params.offset);
        const double periods = ::floor(position / static_cast<double>(params.period));
        const float factor = static_cast<float>(1 + static_cast<double>(params.beta) * ::log(1 + periods));
        const float* x = args.operand<const float>(scale_by_position::x) + row * params.width;
        float* out = args.operand<float>(scale_by_position::out) + row * params.width;
        for (uint32_t i = 0; i < params.width; ++i) out[i] = x[i] * factor;
    }
}

constexpr Kernel kKernels[] = {{"scale_by_position", &scale_by_position::signature, items, nullptr, run}};

}  // namespace

std::span<const Kernel> scale_by_position_kernels() {
    return kKernels;
}

}  // namespace ferrule::cpu::FERRULE_ISA
