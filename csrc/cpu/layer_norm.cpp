// layer_norm: out[r, i] = (x[r, i] - mean) / sqrt(variance + eps) * (weight_offset + weight[i]) + bias[i], each of a
// row's groups alone; layer_norm_quantize (one group) writes quantised rows (quantized_row.h). One work item per row.
#include "../params/layer_norm.h"

#include <math.h>

#include "kernel.h"
#include "quantize_row.h"
#include "sum_in_lanes.h"

namespace ferrule::cpu::FERRULE_ISA {

namespace {

// x, out: [width], may be the same memory; weight and bias: [width] or null.
void layer_norm_row(const float* x, const float* weight, const float* bias, const LayerNorm& params, float* out) {
    const uint32_t width = params.width;
    const float mean = static_cast<float>(sum_in_lanes(width, [&](uint32_t i) { return x[i]; }) / width);
    const double squares = sum_in_lanes(width, [&](uint32_t i) { return (x[i] - mean) * (x[i] - mean); });
    const float factor = static_cast<float>(1 / ::sqrt(squares / width + static_cast<double>(params.eps)));
    for (uint32_t i = 0; i < width; ++i) out[i] = (x[i] - mean) * factor;
    if (weight != nullptr) {
        for (uint32_t i = 0; i < width; ++i) out[i] *= params.weight_offset + weight[i];
    }
    if (bias != nullptr) {
        for (uint32_t i = 0; i < width; ++i) out[i] += bias[i];
    }
}

uint32_t items(const KernelArgs& args) {
    return args.rows;
}

void run(const KernelArgs& args, uint32_t begin, uint32_t end, std::byte*) {
    const LayerNorm& params = args.as<LayerNorm>();
    const float* x = args.operand<const float>(layer_norm::x);
    const float* weight = args.operand<const float>(layer_norm::weight);
    const float* bias = args.operand<const float>(layer_norm::bias);
    float* out = args.operand<float>(layer_norm::out);
    for (size_t group = size_t{begin} * params.groups; group < size_t{end} * params.groups; ++group) {
        const size_t offset = group * params.width;
        layer_norm_row(x + offset, weight, bias, params, out + offset);
    }
}

size_t scratch_quantize(const KernelArgs& args) {
    return args.as<LayerNorm>().width * sizeof(float);
}

void run_quantize(const KernelArgs& args, uint32_t begin, uint32_t end, std::byte* scratch) {
    const LayerNorm& params = args.as<LayerNorm>();
    const float* x = args.operand<const float>(layer_norm::x);
    const float* weight = args.operand<const float>(layer_norm::weight);
    const float* bias = args.operand<const float>(layer_norm::bias);
    uint8_t* out = args.operand<uint8_t>(layer_norm::out);
    float* normed = reinterpret_cast<float*>(scratch);
    for (size_t row = begin; row < end; ++row) {
        layer_norm_row(x + row * params.width, weight, bias, params, normed);
        quantize_row(normed, params.width, params.planes,
                     out + row * quantized_row::row_bytes(params.width, params.planes));
    }
}

constexpr Kernel kKernels[] = {{"layer_norm", &layer_norm::signature, items, nullptr, run},
                               {"layer_norm_quantize", &layer_norm::signature, items, scratch_quantize, run_quantize}};

}  // namespace

std::span<const Kernel> layer_norm_kernels() {
    return kKernels;
}

}  // namespace ferrule::cpu::FERRULE_ISA
