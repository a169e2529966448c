// softcap: out = cap * tanh(x / cap), value by value.
#include "../params/softcap.h"

#include "elementwise.h"
#include "simd/math.h"

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
    const simd::f32x16 cap = simd::set1(params.cap);
    for (size_t i = first; i < last; i += 16) {
        const size_t n = last - i < 16 ? last - i : 16;
        simd::store_partial(out + i, cap * simd::tanh(simd::load_partial(x + i, n) / cap), n);
    }
}

constexpr Kernel kKernels[] = {{"softcap", &softcap::signature, items, nullptr, run}};

}  // namespace

std::span<const Kernel> softcap_kernels() {
    return kKernels;
}

}  // namespace ferrule::cpu::FERRULE_ISA
