// causal_conv1d: out[t, c] = bias[c] + sum_i(weight[c, i] * x[t - taps + 1 + i, c]), each channel alone, over the
// tokens of each sequence in order. x, out: f32 [rows, channels]; weight: f32 [channels, taps]; bias: f32 [channels].
// state: f32 [slots, taps - 1, channels], in place: sequence s carries its own in slot state_slots[s] from step to
// step; before its first position it counts as zero. spans: Span [sequences] (kv_cache.h); state_slots: i32
// [sequences]. It holds the inputs before this step.
#pragma once
#include "kv_cache.h"
#include "signature.h"

namespace ferrule {

struct CausalConv1d {
    uint32_t channels;
    uint32_t taps;
};

namespace causal_conv1d {

enum Operand { x, weight, bias, state, spans, state_slots, out };
enum Constant { has_bias };

// Metal: tokens that a thread takes. At least taps - 1, so that only the first of a sequence need its state.
FERRULE_CONSTANT uint32_t kRun = 16;
FERRULE_CONSTANT uint32_t kMaxTaps = kRun + 1;

#ifndef __METAL_VERSION__
inline constexpr ParamField fields[] = {{"channels", FieldType::u32, offsetof(CausalConv1d, channels)},
                                        {"taps", FieldType::u32, offsetof(CausalConv1d, taps)}};
inline constexpr OperandInfo operands[] = {
    {"x", Access::read},     {"weight", Access::read},      {"bias", Access::read, true}, {"state", Access::read_write},
    {"spans", Access::read}, {"state_slots", Access::read}, {"out", Access::write}};
inline constexpr OpSignature signature{"causal_conv1d", sizeof(CausalConv1d), fields, operands};

inline constexpr MetalDispatch metal_dispatch(const CausalConv1d& params, const LaunchSizes& sizes) {
    constexpr uint32_t kThreads = 256;
    return {.x = ceil_div(params.channels, kThreads),
            .y = sizes.sequences,
            .z = ceil_div(sizes.rows, kRun),
            .threads = kThreads};
}
#endif

}  // namespace causal_conv1d

}  // namespace ferrule
