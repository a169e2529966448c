// clamped_swiglu: g * sigmoid(alpha * g) * (u + 1) of a limited gate and up, value by value.
#include "../params/clamped_swiglu.h"

#include "activate.h"
#include "elementwise.h"

namespace ferrule::cpu::FERRULE_ISA {

namespace {

uint32_t items(const KernelArgs& args) {
    return block_count(value_count(args, args.as<ClampedSwiglu>().width), kActivationBlock);
}

void run(const KernelArgs& args, uint32_t begin, uint32_t end, std::byte*) {
    using simd::set1;
    const ClampedSwiglu& params = args.as<ClampedSwiglu>();
    const float* gate = args.operand<const float>(clamped_swiglu::gate);
    const float* up = args.operand<const float>(clamped_swiglu::up);
    float* out = args.operand<float>(clamped_swiglu::out);
    const auto [first, last] = block_values(begin, end, value_count(args, params.width), kActivationBlock);
    for (size_t i = first; i < last; i += 16) {
        const size_t n = last - i < 16 ? last - i : 16;
        const simd::f32x16 g = min(set1(params.limit), simd::load_partial(gate + i, n));
        const simd::f32x16 u = max(set1(-params.limit), min(set1(params.limit), simd::load_partial(up + i, n)));
        simd::store_partial(out + i, g * simd::sigmoid(set1(params.alpha) * g) * (u + set1(1.0f)), n);
    }
}

constexpr Kernel kKernels[] = {{"clamped_swiglu", &clamped_swiglu::signature, items, nullptr, run}};

}  // namespace

std::span<const Kernel> clamped_swiglu_kernels() {
    return kKernels;
}

}  // namespace ferrule::cpu::FERRULE_ISA
