// gated_activation: out = act(gate) * up, value by value; gated_activation_quantize quantises each part of
// its rows like quantize, chunk by chunk.
#include "../params/gated_activation.h"

#include "activate.h"
#include "elementwise.h"
#include "quantize_row.h"

namespace ferrule::cpu::FERRULE_ISA {

namespace {

uint32_t items(const KernelArgs& args) {
    return block_count(value_count(args, args.as<GatedActivation>().width), kActivationBlock);
}

void run(const KernelArgs& args, uint32_t begin, uint32_t end, std::byte*) {
    const GatedActivation& params = args.as<GatedActivation>();
    const ValueRange range = block_values(begin, end, value_count(args, params.width), kActivationBlock);
    with_activation(params.activation, [&]<Activation a>() {
        activate_values<a, true>(args.operand<const float>(gated_activation::gate),
                                 args.operand<const float>(gated_activation::up),
                                 args.operand<float>(gated_activation::out), range.begin, range.end);
    });
}

uint32_t items_quantize(const KernelArgs& args) {
    const GatedActivation& params = args.as<GatedActivation>();
    return args.rows * params.parts * (quantized_row::padded(params.width / params.parts) / quantized_row::kChunk);
}

void run_quantize(const KernelArgs& args, uint32_t begin, uint32_t end, std::byte*) {
    const GatedActivation& params = args.as<GatedActivation>();
    const uint32_t width = params.width / params.parts, chunks = quantized_row::padded(width) / quantized_row::kChunk;
    with_activation(params.activation, [&]<Activation a>() {
        for (uint32_t item = begin; item < end; ++item) {
            const uint32_t part = item / chunks, first = item % chunks * quantized_row::kChunk;
            const uint32_t n = width - first < quantized_row::kChunk ? width - first : quantized_row::kChunk;
            const size_t offset = size_t{part} * width + first;
            float y[quantized_row::kChunk];
            activate_values<a, true>(args.operand<const float>(gated_activation::gate) + offset,
                                     args.operand<const float>(gated_activation::up) + offset, y, 0, n);
            uint8_t* row = args.operand<uint8_t>(gated_activation::out) +
                           size_t{part} * quantized_row::row_bytes(width, params.planes);
            quantize_chunk(y, n, first, width, params.planes, row);
        }
    });
}

constexpr Kernel kKernels[] = {
    {"gated_activation", &gated_activation::signature, items, nullptr, run},
    {"gated_activation_quantize", &gated_activation::signature, items_quantize, nullptr, run_quantize}};

}  // namespace

std::span<const Kernel> gated_activation_kernels() {
    return kKernels;
}

}  // namespace ferrule::cpu::FERRULE_ISA
