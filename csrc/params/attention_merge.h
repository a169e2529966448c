// attention_merge: the second half of attention, from the partials of attention_split.h. sinks: as in attention.h;
// out: f32 [rows, heads * v_head_dim]. normed: out is rms_norm of that over all heads, with the weight
// f32 [heads * v_head_dim] if there is one, see rms_norm.h.
#pragma once
#include "metal_dispatch.h"
#include "signature.h"

namespace ferrule {

struct AttentionMerge {
    uint32_t heads;
    uint32_t v_head_dim;
    uint32_t splits;
    uint32_t normed;
    float eps;
    float weight_offset;
};

namespace attention_merge {

enum Operand { partials, sinks, weight, out };
enum Constant { has_sinks, has_weight, fc_normed };

#ifndef __METAL_VERSION__
inline constexpr ParamField fields[] = {{"heads", FieldType::u32, offsetof(AttentionMerge, heads)},
                                        {"v_head_dim", FieldType::u32, offsetof(AttentionMerge, v_head_dim)},
                                        {"splits", FieldType::u32, offsetof(AttentionMerge, splits)},
                                        {"normed", FieldType::u32, offsetof(AttentionMerge, normed)},
                                        {"eps", FieldType::f32, offsetof(AttentionMerge, eps)},
                                        {"weight_offset", FieldType::f32, offsetof(AttentionMerge, weight_offset)}};
inline constexpr OperandInfo operands[] = {
    {"partials", Access::read}, {"sinks", Access::read, true}, {"weight", Access::read, true}, {"out", Access::write}};
inline constexpr OpSignature signature{"attention_merge", sizeof(AttentionMerge), fields, operands};

// A threadgroup per head of a row, a thread per value; per row where that is normalised.
inline constexpr MetalDispatch metal_dispatch(const AttentionMerge& params, const LaunchSizes& sizes) {
    if (params.normed) {
        const uint32_t width = params.heads * params.v_head_dim;
        return {.y = sizes.rows, .threads = std::clamp(ceil_div(width, kSimdWidth), 1u, 32u) * kSimdWidth};
    }
    const uint32_t simdgroups = std::clamp(ceil_div(params.v_head_dim, kSimdWidth), 1u, 8u);
    return {.x = params.heads, .y = sizes.rows, .threads = simdgroups * kSimdWidth};
}
#endif

}  // namespace attention_merge

}  // namespace ferrule
