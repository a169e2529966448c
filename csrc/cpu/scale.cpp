// scale: out = factor * x, value by value.
#include "../params/scale.h"

#include "elementwise.h"

namespace ferrule::cpu::FERRULE_ISA {

namespace {

uint32_t items(const KernelArgs& args) {
    return block_count(value_count(args, args.as<Scale>().width));
}

void run(const KernelArgs& args, uint32_t begin, uint32_t end, std::byte*) {
    const Scale& params = args.as<Scale>();
    const float* x = args.operand<const float>(scale::x);
    float* out = args.operand<float>(scale::out);
    const auto [first, last] = block_values(begin, end, value_count(args, params.width));
    for (size_t i = first; i < last; ++i) out[i] = params.factor * x[i];
}

constexpr Kernel kKernels[] = {{"scale", &scale::signature, items, nullptr, run}};

}  // namespace

std::span<const Kernel> scale_kernels() {
    return kKernels;
}

}  // namespace ferrule::cpu::FERRULE_ISA
