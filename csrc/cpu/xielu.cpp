// xielu: positive * x^2 + beta * x where x > 0, else negative * (expm1(min(x, eps)) - x) + beta * x.
#include "../params/xielu.h"

#include "elementwise.h"
#include "simd/math.h"

namespace ferrule::cpu::FERRULE_ISA {

namespace {

uint32_t items(const KernelArgs& args) {
    return block_count(value_count(args, args.as<Xielu>().width));
}

void run(const KernelArgs& args, uint32_t begin, uint32_t end, std::byte*) {
    using simd::set1;
    const Xielu& params = args.as<Xielu>();
    const float* x = args.operand<const float>(xielu::x);
    float* out = args.operand<float>(xielu::out);
    const auto [first, last] = block_values(begin, end, value_count(args, params.width));
    for (size_t i = first; i < last; i += 16) {
        const size_t n = last - i < 16 ? last - i : 16;
        const simd::f32x16 v = simd::load_partial(x + i, n);
        const simd::f32x16 above = set1(params.positive) * v * v;
        const simd::f32x16 below = set1(params.negative) * (expm1(min(set1(params.eps), v)) - v);
        const simd::f32x16 y = fma(set1(params.beta), v, select(less(simd::zero_f32(), v), above, below));
        simd::store_partial(out + i, y, n);
    }
}

constexpr Kernel kKernels[] = {{"xielu", &xielu::signature, items, nullptr, run}};

}  // namespace

std::span<const Kernel> xielu_kernels() {
    return kKernels;
}

}  // namespace ferrule::cpu::FERRULE_ISA
