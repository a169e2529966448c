// causal_conv1d: see params/causal_conv1d.h. A work item is 16 channels of one sequence, over all of its tokens.
#include "../params/causal_conv1d.h"

#include "kernel.h"
#include "simd/simd.h"

namespace ferrule::cpu::FERRULE_ISA {

namespace {

using simd::f32x16;

constexpr uint32_t kLanes = 16;

uint32_t items_per_sequence(const CausalConv1d& params) {
    return (params.channels + kLanes - 1) / kLanes;
}

uint32_t items(const KernelArgs& args) {
    return args.dims.sequences * items_per_sequence(args.as<CausalConv1d>());
}

size_t scratch_bytes(const KernelArgs& args) {
    return args.as<CausalConv1d>().taps * kLanes * sizeof(float);
}

// Up to 16 channels of a sequence: inputs of the step and, before them, of earlier steps.
struct Channels {
    const float* x;  // of the step's first token
    float* state;    // [taps - 1], oldest first
    bool begins;
    uint32_t stride;  // between tokens
    uint32_t n;
    uint32_t history;  // taps - 1

    // Of token t, counted from the step's first, t >= -history.
    f32x16 input(int64_t t) const {
        if (t >= 0) return simd::load_partial(x + t * stride, n);
        return begins ? simd::zero_f32() : simd::load_partial(state + (t + history) * stride, n);
    }
};

void convolve(const CausalConv1d& params, const Channels& channels, const float* weight, const float* bias,
              uint32_t n_rows, float* out, float* transposed) {
    for (uint32_t i = 0; i < params.taps; ++i)
        for (uint32_t c = 0; c < channels.n; ++c) transposed[i * kLanes + c] = weight[c * params.taps + i];
    for (int64_t t = 0; t < n_rows; ++t) {
        f32x16 sum = bias != nullptr ? simd::load_partial(bias, channels.n) : simd::zero_f32();
        for (uint32_t i = 0; i < params.taps; ++i) {
            sum = fma(simd::load(transposed + i * kLanes), channels.input(t + i - channels.history), sum);
        }
        simd::store_partial(out + t * channels.stride, sum, channels.n);
    }
    // In order: what is read lies at or behind what is written.
    for (uint32_t i = 0; i < channels.history; ++i) {
        const f32x16 input = channels.input(int64_t{n_rows} + i - channels.history);
        simd::store_partial(channels.state + i * size_t{channels.stride}, input, channels.n);
    }
}

void run(const KernelArgs& args, uint32_t begin, uint32_t end, std::byte* scratch) {
    const CausalConv1d& params = args.as<CausalConv1d>();
    const float* bias = args.operand<const float>(causal_conv1d::bias);
    const size_t slot_values = size_t{params.taps - 1} * params.channels;
    for (uint32_t item = begin; item < end; ++item) {
        const uint32_t sequence = item / items_per_sequence(params);
        const uint32_t first = item % items_per_sequence(params) * kLanes, left = params.channels - first;
        const Span& span = args.operand<const Span>(causal_conv1d::spans)[sequence];
        const int32_t slot = args.operand<const int32_t>(causal_conv1d::state_slots)[sequence];
        const size_t at = size_t{span.row_begin} * params.channels + first;
        const Channels channels{
            args.operand<const float>(causal_conv1d::x) + at,
            args.operand<float>(causal_conv1d::state) + static_cast<size_t>(slot) * slot_values + first,
            span.position_begin == 0,
            params.channels,
            left < kLanes ? left : kLanes,
            params.taps - 1};
        convolve(params, channels, args.operand<const float>(causal_conv1d::weight) + size_t{first} * params.taps,
                 bias != nullptr ? bias + first : nullptr, span.n_rows, args.operand<float>(causal_conv1d::out) + at,
                 reinterpret_cast<float*>(scratch));
    }
}

constexpr Kernel kKernels[] = {{"causal_conv1d", &causal_conv1d::signature, items, scratch_bytes, run}};

}  // namespace

std::span<const Kernel> causal_conv1d_kernels() {
    return kKernels;
}

}  // namespace ferrule::cpu::FERRULE_ISA
