// clamp: out = x limited to [-limit, limit], value by value.
#include "../params/clamp.h"

#include "elementwise.h"
#include "limit_values.h"

namespace ferrule::cpu::FERRULE_ISA {

namespace {

uint32_t items(const KernelArgs& args) {
    return block_count(value_count(args, args.as<Clamp>().width));
}

void run(const KernelArgs& args, uint32_t begin, uint32_t end, std::byte*) {
    const Clamp& params = args.as<Clamp>();
    const float* x = args.operand<const float>(clamp::x);
    float* out = args.operand<float>(clamp::out);
    const auto [first, last] = block_values(begin, end, value_count(args, params.width));
    limit_values(x + first, last - first, params.limit, out + first);
}

constexpr Kernel kKernels[] = {{"clamp", &clamp::signature, items, nullptr, run}};

}  // namespace

std::span<const Kernel> clamp_kernels() {
    return kKernels;
}

}  // namespace ferrule::cpu::FERRULE_ISA
