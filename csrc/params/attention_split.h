// attention_split: the first half of attention for few rows and long contexts, see attention.h. The blocks that a row
// sees are dealt out, in contiguous ranges of equal length, to `splits` parts that know nothing of each other;
// attention_merge.h puts them together.
// partials: f32 [rows, heads, splits, v_head_dim + 2]: sum_j exp(s_j - m) V_j, then m = max_j s_j and sum_j exp(s_j -
// m) of the part's positions j; of a part without positions m = -inf, the last sum is 0 and the values before are not
// written.
#pragma once
#include "attention.h"
#include "kv_cache.h"
#include "metal_dispatch.h"
#include "signature.h"

namespace ferrule {

struct AttentionSplit {
    uint32_t heads;
    uint32_t kv_heads;
    uint32_t head_dim;
    uint32_t v_head_dim;
    uint32_t window;
    uint32_t chunk;
    uint32_t latent;
    uint32_t top;
    uint32_t splits;
    float scale;
    float softcap;
};

namespace attention_split {

enum Operand { q, q_rotated, cache, spans, block_table, slopes, selected, partials };
enum Constant { has_slopes, fc_heads, fc_kv_heads, fc_head_dim, fc_v_head_dim, fc_window, fc_chunk, fc_softcap };

// A simdgroup is one part; a threadgroup's simdgroups share the queries of up to kMaxHeads heads of a KV head.
FERRULE_CONSTANT uint32_t kSimdgroups = 4;
FERRULE_CONSTANT uint32_t kMaxHeads = 8;
FERRULE_CONSTANT uint32_t kPairsPerLane = 16;  // of the result's values
FERRULE_CONSTANT uint32_t kMaxValues = 2 * kPairsPerLane * kSimdWidth;

// Pairs of a head's values that a lane holds; v_head_dim is even.
constexpr uint32_t head_pairs(uint32_t v_head_dim) {
    return (v_head_dim / 2 + kSimdWidth - 1) / kSimdWidth;
}

// Heads of a KV head that a threadgroup takes.
constexpr uint32_t heads_together(uint32_t heads, uint32_t kv_heads, uint32_t v_head_dim) {
    const uint32_t group = heads / kv_heads, fitting = kPairsPerLane / head_pairs(v_head_dim);
    return group < kMaxHeads ? (group < fitting ? group : fitting) : (kMaxHeads < fitting ? kMaxHeads : fitting);
}

#ifndef __METAL_VERSION__
inline constexpr ParamField fields[] = {{"heads", FieldType::u32, offsetof(AttentionSplit, heads)},
                                        {"kv_heads", FieldType::u32, offsetof(AttentionSplit, kv_heads)},
                                        {"head_dim", FieldType::u32, offsetof(AttentionSplit, head_dim)},
                                        {"v_head_dim", FieldType::u32, offsetof(AttentionSplit, v_head_dim)},
                                        {"window", FieldType::u32, offsetof(AttentionSplit, window)},
                                        {"chunk", FieldType::u32, offsetof(AttentionSplit, chunk)},
                                        {"latent", FieldType::u32, offsetof(AttentionSplit, latent)},
                                        {"top", FieldType::u32, offsetof(AttentionSplit, top)},
                                        {"splits", FieldType::u32, offsetof(AttentionSplit, splits)},
                                        {"scale", FieldType::f32, offsetof(AttentionSplit, scale)},
                                        {"softcap", FieldType::f32, offsetof(AttentionSplit, softcap)}};
inline constexpr OperandInfo operands[] = {{"q", Access::read},
                                           {"q_rotated", Access::read, true},
                                           {"cache", Access::read},
                                           {"spans", Access::read},
                                           {"block_table", Access::read},
                                           {"slopes", Access::read, true},
                                           {"selected", Access::read, true},
                                           {"partials", Access::write}};
inline constexpr OpSignature signature{"attention_split", sizeof(AttentionSplit), fields, operands};

inline constexpr MetalDispatch metal_dispatch(const AttentionSplit& params, const LaunchSizes& sizes) {
    const uint32_t together = heads_together(params.heads, params.kv_heads, params.v_head_dim);
    const uint32_t floats = together * (params.head_dim + kSimdgroups * kCacheBlock);  // queries, weights of a block
    return {.x = params.kv_heads * ceil_div(params.heads / params.kv_heads, together),
            .y = ceil_div(params.splits, kSimdgroups),
            .z = sizes.rows,
            .threads = kSimdgroups * kSimdWidth,
            .threadgroup_bytes = floats * static_cast<uint32_t>(sizeof(float))};
}

// absorbed_attention_split_<kv>, see attention.h: a threadgroup is one part.
inline constexpr MetalDispatch latent_dispatch(const AttentionSplit& params, const LaunchSizes& sizes) {
    const uint32_t floats = attention::latent_floats(params.head_dim, params.v_head_dim);
    return {.x = ceil_div(params.heads, attention::kTileRows),
            .y = params.splits,
            .z = sizes.rows,
            .threads = attention::kLatentSimdgroups * kSimdWidth,
            .threadgroup_bytes = floats * static_cast<uint32_t>(sizeof(float))};
}
#endif

}  // namespace attention_split

}  // namespace ferrule
