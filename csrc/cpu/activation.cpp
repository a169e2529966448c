// activation: out = act(x), value by value.
#include "../params/activation.h"

#include "activate.h"
#include "elementwise.h"

namespace ferrule::cpu::FERRULE_ISA {

namespace {

uint32_t items(const KernelArgs& args) {
    return block_count(value_count(args, args.as<UnaryActivation>().width), kActivationBlock);
}

void run(const KernelArgs& args, uint32_t begin, uint32_t end, std::byte*) {
    const UnaryActivation& params = args.as<UnaryActivation>();
    const ValueRange range = block_values(begin, end, value_count(args, params.width), kActivationBlock);
    with_activation(params.activation, [&]<Activation a>() {
        activate_values<a, false>(args.operand<const float>(activation::x), nullptr,
                                  args.operand<float>(activation::out), range.begin, range.end);
    });
}

constexpr Kernel kKernels[] = {{"activation", &activation::signature, items, nullptr, run}};

}  // namespace

std::span<const Kernel> activation_kernels() {
    return kKernels;
}

}  // namespace ferrule::cpu::FERRULE_ISA
