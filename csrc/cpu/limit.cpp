// limit_read, limit_int8, limit_f32 (params/limit.h). A work item is a row.
#include "../params/limit.h"

#include "kernel.h"
#include "simd/simd.h"

namespace ferrule::cpu::FERRULE_ISA {
namespace {

using namespace simd;

constexpr uint32_t kLanes = 16;
constexpr uint32_t kAccumulators = 6;  // enough to hide a product's latency, few enough for registers

uint32_t items(const KernelArgs& args) {
    return args.rows;
}

void read(const KernelArgs& args, uint32_t begin, uint32_t end, std::byte*) {
    constexpr size_t kAhead = 4096;
    const size_t width = args.as<Limit>().width;
    for (size_t row = begin; row < end; ++row) {
        const uint8_t* x = args.operand<const uint8_t>(limit::x) + row * width;
        u8x64 sum = set1_u8(0);
        for (size_t i = 0; i + 64 <= width; i += 64) {
            prefetch_l2(x + i + kAhead);
            sum = sum ^ load(x + i);
        }
        store(args.operand<float>(limit::out) + row * kLanes, to_f32(as_i32(sum)));
    }
}

// The sum of `width` results of multiply(sum, i), each with accumulator i. These begin with different numbers, or a
// compiler would take them for one.
template <class Number, class Multiply>
auto multiply_and_add(uint32_t width, Multiply multiply) {
    decltype(set1(Number{})) sums[kAccumulators];
    for (uint32_t i = 0; i < kAccumulators; ++i) sums[i] = set1(static_cast<Number>(i));
    for (uint32_t done = 0; done < width; done += kAccumulators) {
        for (uint32_t i = 0; i < kAccumulators; ++i) sums[i] = multiply(sums[i], i);
        asm volatile("" ::: "memory");  // the factors may have changed: no product is made once for all
    }
    for (uint32_t i = 1; i < kAccumulators; ++i) sums[0] = sums[0] + sums[i];
    return sums[0];
}

void int8(const KernelArgs& args, uint32_t begin, uint32_t end, std::byte*) {
    const int8_t* x = args.operand<const int8_t>(limit::x);
    const u8x64 codes = load(args.operand<const uint8_t>(limit::x));
    const auto multiply = [=](i32x16 sum, size_t i) { return dot4<false>(sum, codes, load(x + 64 * i)); };
    for (size_t row = begin; row < end; ++row) {
        const i32x16 sum = multiply_and_add<int32_t>(args.as<Limit>().width, multiply);
        store(args.operand<float>(limit::out) + row * kLanes, to_f32(sum));
    }
}

void f32(const KernelArgs& args, uint32_t begin, uint32_t end, std::byte*) {
    const float* x = args.operand<const float>(limit::x);
    const f32x16 factor = load(x);
    const auto multiply = [=](f32x16 sum, size_t i) { return fma(factor, load(x + kLanes * i), sum); };
    for (size_t row = begin; row < end; ++row) {
        store(args.operand<float>(limit::out) + row * kLanes,
              multiply_and_add<float>(args.as<Limit>().width, multiply));
    }
}

constexpr Kernel kKernels[] = {{"limit_read", &limit::signature, items, nullptr, read},
                               {"limit_int8", &limit::signature, items, nullptr, int8},
                               {"limit_f32", &limit::signature, items, nullptr, f32}};

}  // namespace

std::span<const Kernel> limit_kernels() {
    return kKernels;
}

}  // namespace ferrule::cpu::FERRULE_ISA
