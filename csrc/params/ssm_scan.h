// ssm_scan: selective state space recurrence (Gu & Dao 2023; Dao & Gu 2024) over the tokens of each sequence in order.
// With step = softplus(dt[t, h] + dt_bias[h]) limited to [dt_min, dt_max] and S = state[h], for each head h:
//   S[p, i] = exp(step * a[h, i]) * S[p, i] + step * x[t, h, p] * b[t, g, i]
//   out[t, h, p] = sum_i(S[p, i] * c[t, g, i]) + d[h] * x[t, h, p]        g = h / (heads / groups)
// x, out: f32 [rows, heads, head_dim]; dt: f32 [rows, heads]; b, c: f32 [rows, groups, n]; a: f32 [heads, a_width],
// a_width being n or 1 (the same for all i); d, dt_bias: f32 [heads].
// state: f32 [slots, heads, head_dim, n], in place: sequence s carries its own in slot state_slots[s] from step to
// step; before its first position it counts as zero. spans: Span [sequences] (kv_cache.h); state_slots: i32
// [sequences].
#pragma once
#include "kv_cache.h"
#include "signature.h"

namespace ferrule {

struct SsmScan {
    uint32_t heads;
    uint32_t head_dim;
    uint32_t n;
    uint32_t groups;
    uint32_t a_width;
    float dt_min;
    float dt_max;
};

namespace ssm_scan {

enum Operand { x, dt, b, c, a, d, dt_bias, state, spans, state_slots, out };
enum Constant { has_dt_bias, fc_n };

// Metal: lanes of a simdgroup that a row of a state is shared out to, a power of two, and the most that each holds.
constexpr uint32_t lanes_per_row(uint32_t n) {
    uint32_t lanes = 1;
    while (lanes < n && lanes < kSimdWidth) lanes *= 2;
    return lanes;
}
FERRULE_CONSTANT uint32_t kValuesPerLane = 8;
FERRULE_CONSTANT uint32_t kMaxN = kValuesPerLane * kSimdWidth;

#ifndef __METAL_VERSION__
inline constexpr ParamField fields[] = {{"heads", FieldType::u32, offsetof(SsmScan, heads)},
                                        {"head_dim", FieldType::u32, offsetof(SsmScan, head_dim)},
                                        {"n", FieldType::u32, offsetof(SsmScan, n)},
                                        {"groups", FieldType::u32, offsetof(SsmScan, groups)},
                                        {"a_width", FieldType::u32, offsetof(SsmScan, a_width)},
                                        {"dt_min", FieldType::f32, offsetof(SsmScan, dt_min)},
                                        {"dt_max", FieldType::f32, offsetof(SsmScan, dt_max)}};
inline constexpr OperandInfo operands[] = {{"x", Access::read},
                                           {"dt", Access::read},
                                           {"b", Access::read},
                                           {"c", Access::read},
                                           {"a", Access::read},
                                           {"d", Access::read},
                                           {"dt_bias", Access::read, true},
                                           {"state", Access::read_write},
                                           {"spans", Access::read},
                                           {"state_slots", Access::read},
                                           {"out", Access::write}};
inline constexpr OpSignature signature{"ssm_scan", sizeof(SsmScan), fields, operands};

inline constexpr MetalDispatch metal_dispatch(const SsmScan& params, const LaunchSizes& sizes) {
    const uint32_t threads = params.heads * params.head_dim * lanes_per_row(params.n);
    return {.x = ceil_div(threads, 128), .y = sizes.sequences, .threads = 128};
}
#endif

}  // namespace ssm_scan

}  // namespace ferrule
