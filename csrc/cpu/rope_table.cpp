// rope_table: cosines and sines of position * frequency, the angle in float64. One work item per row.
#include "../params/rope_table.h"

#include <math.h>

#include "kernel.h"

namespace ferrule::cpu::FERRULE_ISA {

namespace {

uint32_t items(const KernelArgs& args) {
    return args.rows;
}

void run(const KernelArgs& args, uint32_t begin, uint32_t end, std::byte*) {
    const RopeTable& params = args.as<RopeTable>();
    const int32_t* positions = args.operand<const int32_t>(rope_table::positions);
    const float* frequencies = args.operand<const float>(rope_table::frequencies);
    for (uint32_t row = begin; row < end; ++row) {
        float* cosines = args.operand<float>(rope_table::out) + size_t{row} * 2 * params.n;
        float* sines = cosines + params.n;
        for (uint32_t i = 0; i < params.n; ++i) {
            const double angle = static_cast<double>(positions[row]) * static_cast<double>(frequencies[i]);
            cosines[i] = static_cast<float>(::cos(angle) * static_cast<double>(params.scale));
            sines[i] = static_cast<float>(::sin(angle) * static_cast<double>(params.scale));
        }
    }
}

constexpr Kernel kKernels[] = {{"rope_table", &rope_table::signature, items, nullptr, run}};

}  // namespace

std::span<const Kernel> rope_table_kernels() {
    return kKernels;
}

}  // namespace ferrule::cpu::FERRULE_ISA
