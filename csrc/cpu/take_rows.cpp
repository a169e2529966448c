// take_rows: out[r] = x[index[r]]. One work item per row.
#include "../params/take_rows.h"

#include <string.h>

#include "kernel.h"

namespace ferrule::cpu::FERRULE_ISA {

namespace {

uint32_t items(const KernelArgs& args) {
    return args.rows;
}

void run(const KernelArgs& args, uint32_t begin, uint32_t end, std::byte*) {
    const size_t width = args.as<TakeRows>().width;
    const float* x = args.operand<const float>(take_rows::x);
    const int32_t* index = args.operand<const int32_t>(take_rows::index);
    float* out = args.operand<float>(take_rows::out);
    for (uint32_t r = begin; r < end; ++r) {
        ::memcpy(out + r * width, x + static_cast<size_t>(index[r]) * width, width * sizeof(float));
    }
}

constexpr Kernel kKernels[] = {{"take_rows", &take_rows::signature, items, nullptr, run}};

}  // namespace

std::span<const Kernel> take_rows_kernels() {
    return kKernels;
}

}  // namespace ferrule::cpu::FERRULE_ISA
