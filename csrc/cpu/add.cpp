// add: out = a + b, value by value.
#include "../params/add.h"

#include "elementwise.h"

namespace ferrule::cpu::FERRULE_ISA {

namespace {

uint32_t items(const KernelArgs& args) {
    return block_count(value_count(args, args.as<Add>().width));
}

void run(const KernelArgs& args, uint32_t begin, uint32_t end, std::byte*) {
    const float* a = args.operand<const float>(add::a);
    const float* b = args.operand<const float>(add::b);
    float* out = args.operand<float>(add::out);
    const auto [first, last] = block_values(begin, end, value_count(args, args.as<Add>().width));
    for (size_t i = first; i < last; ++i) out[i] = a[i] + b[i];
}

constexpr Kernel kKernels[] = {{"add", &add::signature, items, nullptr, run}};

}  // namespace

std::span<const Kernel> add_kernels() {
    return kKernels;
}

}  // namespace ferrule::cpu::FERRULE_ISA
