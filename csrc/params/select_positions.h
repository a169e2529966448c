// select_positions: for each row, at position i, the numbers of the `top` positions j <= i with the greatest
// sum_h(weights[r, h] * max(0, scale * q[r, h] . K[j])), of equals the lower ones, in any order; -1 fills up
// (DeepSeek-AI 2025). q: f32 [rows, heads * head_dim]; weights: f32 [rows, heads]; cache: kv_cache.h, one head of keys
// without values; spans: Span [sequences]; out: f32 [rows, top].
#pragma once
#include "kv_cache.h"
#include "signature.h"

namespace ferrule {

struct SelectPositions {
    uint32_t heads;
    uint32_t head_dim;
    uint32_t top;
    float scale;
};

namespace select_positions {

enum Operand { q, weights, cache, spans, block_table, out };

// Metal: a threadgroup per row collects up to top + kSpare positions, 8 bytes each, within 32 KiB.
FERRULE_CONSTANT uint32_t kThreads = 256;
FERRULE_CONSTANT uint32_t kSpare = 1024;
FERRULE_CONSTANT uint32_t kMaxTop = 3000;

#ifndef __METAL_VERSION__
inline constexpr ParamField fields[] = {{"heads", FieldType::u32, offsetof(SelectPositions, heads)},
                                        {"head_dim", FieldType::u32, offsetof(SelectPositions, head_dim)},
                                        {"top", FieldType::u32, offsetof(SelectPositions, top)},
                                        {"scale", FieldType::f32, offsetof(SelectPositions, scale)}};
inline constexpr OperandInfo operands[] = {{"q", Access::read},           {"weights", Access::read},
                                           {"cache", Access::read},       {"spans", Access::read},
                                           {"block_table", Access::read}, {"out", Access::write}};
inline constexpr OpSignature signature{"select_positions", sizeof(SelectPositions), fields, operands};

inline constexpr MetalDispatch metal_dispatch(const SelectPositions& params, const LaunchSizes& sizes) {
    return {.x = sizes.rows, .threads = kThreads, .threadgroup_bytes = 8 * (params.top + kSpare)};
}
#endif

}  // namespace select_positions

}  // namespace ferrule
