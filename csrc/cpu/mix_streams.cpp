// mix_streams: sums of a row's vectors, each times its coefficient. A work item is one vector of the result.
#include "../params/mix_streams.h"

#include "kernel.h"
#include "simd/simd.h"

namespace ferrule::cpu::FERRULE_ISA {

namespace {

using simd::f32x16;

constexpr uint32_t kLanes = 16;

uint32_t items(const KernelArgs& args) {
    return args.rows * args.as<MixStreams>().outputs;
}

void run(const KernelArgs& args, uint32_t begin, uint32_t end, std::byte*) {
    const auto [width, inputs, outputs, coefficient_stride] = args.as<MixStreams>();
    const float* residual = args.operand<const float>(mix_streams::residual);
    for (size_t item = begin; item < end; ++item) {
        const size_t row = item / outputs, stream = item % outputs;
        const float* x = args.operand<const float>(mix_streams::x) + row * inputs * width;
        const float* coefficients = args.operand<const float>(mix_streams::coefficients) + row * coefficient_stride;
        float* out = args.operand<float>(mix_streams::out) + item * width;
        for (uint32_t i = 0; i < width; i += kLanes) {
            const uint32_t n = width - i < kLanes ? width - i : kLanes;
            f32x16 sum = residual != nullptr ? simd::load_partial(residual + item * width + i, n) : simd::zero_f32();
            for (uint32_t j = 0; j < inputs; ++j) {
                const f32x16 values = simd::load_partial(x + size_t{j} * width + i, n);
                sum = fma(simd::set1(coefficients[stream * inputs + j]), values, sum);
            }
            simd::store_partial(out + i, sum, n);
        }
    }
}

constexpr Kernel kKernels[] = {{"mix_streams", &mix_streams::signature, items, nullptr, run}};

}  // namespace

std::span<const Kernel> mix_streams_kernels() {
    return kKernels;
}

}  // namespace ferrule::cpu::FERRULE_ISA
