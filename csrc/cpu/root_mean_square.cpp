// root_mean_square: the magnitude of each row. One work item per row.
#include "../params/root_mean_square.h"

#include <math.h>

#include "kernel.h"
#include "sum_in_lanes.h"

namespace ferrule::cpu::FERRULE_ISA {

namespace {

uint32_t items(const KernelArgs& args) {
    return args.rows;
}

void run(const KernelArgs& args, uint32_t begin, uint32_t end, std::byte*) {
    const uint32_t width = args.as<RootMeanSquare>().width;
    for (size_t row = begin; row < end; ++row) {
        const float* x = args.operand<const float>(root_mean_square::x) + row * width;
        const double squares = sum_in_lanes(width, [&](uint32_t i) { return x[i] * x[i]; });
        args.operand<float>(root_mean_square::out)[row] = static_cast<float>(::sqrt(squares / width));
    }
}

constexpr Kernel kKernels[] = {{"root_mean_square", &root_mean_square::signature, items, nullptr, run}};

}  // namespace

std::span<const Kernel> root_mean_square_kernels() {
    return kKernels;
}

}  // namespace ferrule::cpu::FERRULE_ISA
