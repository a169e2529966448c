// rms_norm: out[r, i] = x[r, i] / sqrt(mean_i(x[r, i]^2) + eps) * (weight_offset + weight[i]), each of a row's groups
// alone; rms_norm_quantize (one group) writes quantised rows (quantized_row.h). One work item per row.
#include "../params/rms_norm.h"

#include "kernel.h"
#include "quantize_row.h"
#include "rms_norm_row.h"

namespace ferrule::cpu::FERRULE_ISA {

namespace {

uint32_t items(const KernelArgs& args) {
    return args.rows;
}

void run(const KernelArgs& args, uint32_t begin, uint32_t end, std::byte*) {
    const RmsNorm& params = args.as<RmsNorm>();
    const float* x = args.operand<const float>(rms_norm::x);
    const float* weight = args.operand<const float>(rms_norm::weight);
    float* out = args.operand<float>(rms_norm::out);
    for (size_t group = size_t{begin} * params.groups; group < size_t{end} * params.groups; ++group) {
        const size_t offset = group * params.width;
        rms_norm_row(x + offset, weight, params.width, params.eps, params.weight_offset, out + offset);
    }
}

size_t scratch_quantize(const KernelArgs& args) {
    return args.as<RmsNorm>().width * sizeof(float);
}

void run_quantize(const KernelArgs& args, uint32_t begin, uint32_t end, std::byte* scratch) {
    const RmsNorm& params = args.as<RmsNorm>();
    const float* x = args.operand<const float>(rms_norm::x);
    const float* weight = args.operand<const float>(rms_norm::weight);
    uint8_t* out = args.operand<uint8_t>(rms_norm::out);
    float* normed = reinterpret_cast<float*>(scratch);
    for (size_t row = begin; row < end; ++row) {
        rms_norm_row(x + row * params.width, weight, params.width, params.eps, params.weight_offset, normed);
        quantize_row(normed, params.width, params.planes,
                     out + row * quantized_row::row_bytes(params.width, params.planes));
    }
}

constexpr Kernel kKernels[] = {{"rms_norm", &rms_norm::signature, items, nullptr, run},
                               {"rms_norm_quantize", &rms_norm::signature, items, scratch_quantize, run_quantize}};

}  // namespace

std::span<const Kernel> rms_norm_kernels() {
    return kKernels;
}

}  // namespace ferrule::cpu::FERRULE_ISA
