// rms_norm: out[r, i] = x[r, i] / sqrt(mean_i(x[r, i]^2) + eps) * (weight_offset + weight[i]), each of a row's groups
// alone. One work item per row.
// Squares are summed in 16 lanes (lane = i % 16), then the lanes in float64: the relative error of the mean stays
// near width / 16 * 2^-24 at worst and is about 1e-7 in practice.
#include "../params/rms_norm.h"

#include <math.h>

#include "kernel.h"

namespace ferrule::cpu::FERRULE_ISA {

namespace {

constexpr uint32_t kLanes = 16;

float inverse_rms(const float* x, uint32_t width, float eps) {
    float lanes[kLanes] = {};
    uint32_t i = 0;
    for (; i + kLanes <= width; i += kLanes) {
        for (uint32_t lane = 0; lane < kLanes; ++lane) lanes[lane] += x[i + lane] * x[i + lane];
    }
    for (uint32_t lane = 0; i < width; ++i, ++lane) lanes[lane] += x[i] * x[i];
    double sum = 0;
    for (float lane : lanes) sum += lane;
    return static_cast<float>(1 / ::sqrt(sum / width + eps));
}

void normalise_row(const RmsNorm& params, const float* x, const float* weight, float* out) {
    for (uint32_t group = 0; group < params.groups; ++group, x += params.width, out += params.width) {
        const float factor = inverse_rms(x, params.width, params.eps);
        if (weight == nullptr) {
            for (uint32_t i = 0; i < params.width; ++i) out[i] = x[i] * factor;
        } else {
            for (uint32_t i = 0; i < params.width; ++i) out[i] = x[i] * factor * (params.weight_offset + weight[i]);
        }
    }
}

uint32_t items(const KernelArgs& args) {
    return args.rows;
}

void run(const KernelArgs& args, uint32_t begin, uint32_t end, std::byte*) {
    const RmsNorm& params = args.as<RmsNorm>();
    const size_t row_values = size_t{params.groups} * params.width;
    const float* x = args.operand<const float>(rms_norm::x);
    float* out = args.operand<float>(rms_norm::out);
    for (uint32_t r = begin; r < end; ++r) {
        normalise_row(params, x + r * row_values, args.operand<const float>(rms_norm::weight), out + r * row_values);
    }
}

constexpr Kernel kKernels[] = {{"rms_norm", &rms_norm::signature, items, nullptr, run}};

}  // namespace

std::span<const Kernel> rms_norm_kernels() {
    return kKernels;
}

}  // namespace ferrule::cpu::FERRULE_ISA
