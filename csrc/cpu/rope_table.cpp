// rope_table and its variants: cosines and sines of position * frequency, the angle in float64. One work item per row.
#include "../params/rope_table.h"

#include <math.h>

#include "../params/dynamic_rope_table.h"
#include "../params/long_rope_table.h"
#include "../params/sectioned_rope_table.h"
#include "kernel.h"

namespace ferrule::cpu::FERRULE_ISA {

namespace {

uint32_t items(const KernelArgs& args) {
    return args.rows;
}

// out: n cosines, then n sines of angle(i), times scale.
template <class Angle>
void write_row(uint32_t n, float scale, float* out, Angle angle) {
    for (uint32_t i = 0; i < n; ++i) {
        const double a = angle(i);
        out[i] = static_cast<float>(::cos(a) * static_cast<double>(scale));
        out[n + i] = static_cast<float>(::sin(a) * static_cast<double>(scale));
    }
}

void run(const KernelArgs& args, uint32_t begin, uint32_t end, std::byte*) {
    const RopeTable& params = args.as<RopeTable>();
    const int32_t* positions = args.operand<const int32_t>(rope_table::positions);
    const float* frequencies = args.operand<const float>(rope_table::frequencies);
    for (uint32_t row = begin; row < end; ++row) {
        float* out = args.operand<float>(rope_table::out) + size_t{row} * 2 * params.n;
        write_row(params.n, params.scale, out, [&](uint32_t i) {
            return static_cast<double>(positions[row]) * static_cast<double>(frequencies[i]);
        });
    }
}

void run_sectioned(const KernelArgs& args, uint32_t begin, uint32_t end, std::byte*) {
    const SectionedRopeTable& params = args.as<SectionedRopeTable>();
    const float* frequencies = args.operand<const float>(sectioned_rope_table::frequencies);
    const float* axes = args.operand<const float>(sectioned_rope_table::axes);
    for (uint32_t row = begin; row < end; ++row) {
        const int32_t* position = args.operand<const int32_t>(sectioned_rope_table::axis_positions) + size_t{row} * 3;
        float* out = args.operand<float>(sectioned_rope_table::out) + size_t{row} * 2 * params.n;
        write_row(params.n, params.scale, out, [&](uint32_t i) {
            return static_cast<double>(position[static_cast<uint32_t>(axes[i])]) * static_cast<double>(frequencies[i]);
        });
    }
}

void run_long(const KernelArgs& args, uint32_t begin, uint32_t end, std::byte*) {
    const LongRopeTable& params = args.as<LongRopeTable>();
    const int32_t* positions = args.operand<const int32_t>(long_rope_table::positions);
    const int32_t* lengths = args.operand<const int32_t>(long_rope_table::lengths);
    for (uint32_t row = begin; row < end; ++row) {
        const bool is_long = lengths[row] > static_cast<int32_t>(params.threshold);
        const float* frequencies =
            args.operand<const float>(is_long ? long_rope_table::long_frequencies : long_rope_table::short_frequencies);
        float* out = args.operand<float>(long_rope_table::out) + size_t{row} * 2 * params.n;
        write_row(params.n, is_long ? params.long_scale : params.short_scale, out, [&](uint32_t i) {
            return static_cast<double>(positions[row]) * static_cast<double>(frequencies[i]);
        });
    }
}

void run_dynamic(const KernelArgs& args, uint32_t begin, uint32_t end, std::byte*) {
    const DynamicRopeTable& params = args.as<DynamicRopeTable>();
    const int32_t* positions = args.operand<const int32_t>(dynamic_rope_table::positions);
    const int32_t* lengths = args.operand<const int32_t>(dynamic_rope_table::lengths);
    const float* frequencies = args.operand<const float>(dynamic_rope_table::frequencies);
    const double factor = static_cast<double>(params.factor), threshold = params.threshold;
    for (uint32_t row = begin; row < end; ++row) {
        const double length = lengths[row] > threshold ? lengths[row] : threshold;
        const double stretch = factor * length / threshold - (factor - 1);
        float* out = args.operand<float>(dynamic_rope_table::out) + size_t{row} * 2 * params.n;
        write_row(params.n, 1.0f, out, [&](uint32_t i) {
            const double shrink = ::pow(stretch, -static_cast<double>(i) / (params.n - 1));
            return static_cast<double>(positions[row]) * static_cast<double>(frequencies[i]) * shrink;
        });
    }
}

constexpr Kernel kKernels[] = {
    {"rope_table", &rope_table::signature, items, nullptr, run},
    {"sectioned_rope_table", &sectioned_rope_table::signature, items, nullptr, run_sectioned},
    {"long_rope_table", &long_rope_table::signature, items, nullptr, run_long},
    {"dynamic_rope_table", &dynamic_rope_table::signature, items, nullptr, run_dynamic},
};

}  // namespace

std::span<const Kernel> rope_table_kernels() {
    return kKernels;
}

}  // namespace ferrule::cpu::FERRULE_ISA
