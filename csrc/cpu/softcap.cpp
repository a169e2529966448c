// softcap: out = cap * tanh(x / cap), value by value.
#include "../params/softcap.h"

#include <math.h>

#include "elementwise.h"

namespace ferrule::cpu::FERRULE_ISA {

namespace {

uint32_t items(const KernelArgs& args) {
    return block_count(value_count(args, args.as<Softcap>().width));
}

void run(const KernelArgs& args, uint32_t begin, uint32_t end, std::byte*) {
    const Softcap& params = args.as<Softcap>();
    const float* x = args.operand<const float>(softcap::x);
    float* out = args.operand<float>(softcap::out);
    const auto [first, last] = block_values(begin, end, value_count(args, params.width));
    for (size_t i = first; i < last; ++i) out[i] = params.cap * ::tanhf(x[i] / params.cap);
}

constexpr Kernel kKernels[] = {{"softcap", &softcap::signature, items, nullptr, run}};

}  // namespace

std::span<const Kernel> softcap_kernels() {
    return kKernels;
}

}  // namespace ferrule::cpu::FERRULE_ISA
