// gated_delta_rule (Yang et al. 2024) over the tokens of each sequence in order. For each head h, with S = state[h]:
//   S[i, :] = exp(a[h] * softplus(dt[t, h, i] + dt_bias[h, i])) * S[i, :]
//   S[i, :] = S[i, :] + k[t, g, i] * beta[t, h] * (v[t, h, :] - sum_j(k[t, g, j] * S[j, :]))
//   out[t, h, :] = sum_i(q[t, g, i] * S[i, :])
// g = h / (heads / k_heads), or h % k_heads where `tiled`. q, k: f32 [rows, k_heads, k_dim]; v, out: f32 [rows, heads,
// v_dim]; beta: f32 [rows, heads]; dt: f32 [rows, heads, decays] and dt_bias: f32 [heads, decays], decays being k_dim
// or 1 (the same for all i); a: f32 [heads]. state: f32 [slots, heads, k_dim, v_dim], in place: sequence s carries its
// own in slot state_slots[s] from step to step; before its first position it counts as zero. spans: Span [sequences]
// (kv_cache.h); state_slots: i32 [sequences].
#pragma once
#include "kv_cache.h"
#include "signature.h"

namespace ferrule {

struct GatedDeltaRule {
    uint32_t heads;
    uint32_t k_heads;
    uint32_t k_dim;
    uint32_t v_dim;
    uint32_t decays;
    uint32_t tiled;
};

namespace gated_delta_rule {

enum Operand { q, k, v, beta, dt, a, dt_bias, state, spans, state_slots, out };
enum Constant { fc_k_dim };

// Metal: a simdgroup takes kColumns columns of a head's state, each in kSlices lanes of kValuesPerLane values at most.
FERRULE_CONSTANT uint32_t kSimdgroups = 4;
FERRULE_CONSTANT uint32_t kSlices = 4;
FERRULE_CONSTANT uint32_t kColumns = kSimdWidth / kSlices;
FERRULE_CONSTANT uint32_t kValuesPerLane = 64;
FERRULE_CONSTANT uint32_t kMaxKey = kSlices * kValuesPerLane;

#ifndef __METAL_VERSION__
inline constexpr ParamField fields[] = {{"heads", FieldType::u32, offsetof(GatedDeltaRule, heads)},
                                        {"k_heads", FieldType::u32, offsetof(GatedDeltaRule, k_heads)},
                                        {"k_dim", FieldType::u32, offsetof(GatedDeltaRule, k_dim)},
                                        {"v_dim", FieldType::u32, offsetof(GatedDeltaRule, v_dim)},
                                        {"decays", FieldType::u32, offsetof(GatedDeltaRule, decays)},
                                        {"tiled", FieldType::u32, offsetof(GatedDeltaRule, tiled)}};
inline constexpr OperandInfo operands[] = {
    {"q", Access::read},     {"k", Access::read},           {"v", Access::read},       {"beta", Access::read},
    {"dt", Access::read},    {"a", Access::read},           {"dt_bias", Access::read}, {"state", Access::read_write},
    {"spans", Access::read}, {"state_slots", Access::read}, {"out", Access::write}};
inline constexpr OpSignature signature{"gated_delta_rule", sizeof(GatedDeltaRule), fields, operands};

inline constexpr MetalDispatch metal_dispatch(const GatedDeltaRule& params, const LaunchSizes& sizes) {
    return {.x = ceil_div(params.v_dim, kSimdgroups * kColumns),
            .y = params.heads,
            .z = sizes.sequences,
            .threads = kSimdgroups * kSimdWidth};
}
#endif

}  // namespace gated_delta_rule

}  // namespace ferrule
