// attention_merge: the second half of attention, from the partials of attention_split.h. sinks: as in attention.h;
// out: f32 [rows, heads * v_head_dim].
#pragma once
#include "metal_dispatch.h"
#include "signature.h"

namespace ferrule {

struct AttentionMerge {
    uint32_t heads;
    uint32_t v_head_dim;
    uint32_t splits;
};

namespace attention_merge {

enum Operand { partials, sinks, out };
enum Constant { has_sinks };

#ifndef __METAL_VERSION__
inline constexpr ParamField fields[] = {{"heads", FieldType::u32, offsetof(AttentionMerge, heads)},
                                        {"v_head_dim", FieldType::u32, offsetof(AttentionMerge, v_head_dim)},
                                        {"splits", FieldType::u32, offsetof(AttentionMerge, splits)}};
inline constexpr OperandInfo operands[] = {
    {"partials", Access::read}, {"sinks", Access::read, true}, {"out", Access::write}};
inline constexpr OpSignature signature{"attention_merge", sizeof(AttentionMerge), fields, operands};

// A threadgroup per head of a row, a thread per value.
inline constexpr MetalDispatch metal_dispatch(const AttentionMerge& params, const LaunchSizes& sizes) {
    const uint32_t simdgroups = std::clamp(ceil_div(params.v_head_dim, kSimdWidth), 1u, 8u);
    return {.x = params.heads, .y = sizes.rows, .threads = simdgroups * kSimdWidth};
}
#endif

}  // namespace attention_merge

}  // namespace ferrule
