// keep_outliers: what a row's values exceed mean + deviations * standard deviation by, at least 0. One work item per
// row.
#include "../params/keep_outliers.h"

#include <math.h>

#include "kernel.h"
#include "sum_in_lanes.h"

namespace ferrule::cpu::FERRULE_ISA {

namespace {

uint32_t items(const KernelArgs& args) {
    return args.rows;
}

void run(const KernelArgs& args, uint32_t begin, uint32_t end, std::byte*) {
    const auto [width, deviations] = args.as<KeepOutliers>();
    for (size_t row = begin; row < end; ++row) {
        const float* x = args.operand<const float>(keep_outliers::x) + row * width;
        float* out = args.operand<float>(keep_outliers::out) + row * width;
        const float mean = static_cast<float>(sum_in_lanes(width, [&](uint32_t i) { return x[i]; }) / width);
        const double squares = sum_in_lanes(width, [&](uint32_t i) { return (x[i] - mean) * (x[i] - mean); });
        const float cutoff = static_cast<float>(mean + deviations * ::sqrt(squares / width));
        for (uint32_t i = 0; i < width; ++i) out[i] = x[i] > cutoff ? x[i] - cutoff : 0;
    }
}

constexpr Kernel kKernels[] = {{"keep_outliers", &keep_outliers::signature, items, nullptr, run}};

}  // namespace

std::span<const Kernel> keep_outliers_kernels() {
    return kKernels;
}

}  // namespace ferrule::cpu::FERRULE_ISA
