// gated_activation: out = act(gate) * up, value by value.
#include "../params/gated_activation.h"

#include "activate.h"
#include "elementwise.h"

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

constexpr Kernel kKernels[] = {{"gated_activation", &gated_activation::signature, items, nullptr, run}};

}  // namespace

std::span<const Kernel> gated_activation_kernels() {
    return kKernels;
}

}  // namespace ferrule::cpu::FERRULE_ISA
