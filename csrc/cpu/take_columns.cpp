// take_columns: out[r, i] = x[r, begin + i]. One work item per row.
#include "../params/take_columns.h"

#include <string.h>

#include "kernel.h"

namespace ferrule::cpu::FERRULE_ISA {

namespace {

uint32_t items(const KernelArgs& args) {
    return args.rows;
}

void run(const KernelArgs& args, uint32_t begin, uint32_t end, std::byte*) {
    const TakeColumns& params = args.as<TakeColumns>();
    const float* x = args.operand<const float>(take_columns::x) + params.begin;
    float* out = args.operand<float>(take_columns::out);
    for (size_t row = begin; row < end; ++row) {
        ::memcpy(out + row * params.count, x + row * params.width, params.count * sizeof(float));
    }
}

constexpr Kernel kKernels[] = {{"take_columns", &take_columns::signature, items, nullptr, run}};

}  // namespace

std::span<const Kernel> take_columns_kernels() {
    return kKernels;
}

}  // namespace ferrule::cpu::FERRULE_ISA
