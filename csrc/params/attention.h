// attention: out[r, h] = softmax_j(cap(scale * q[r, h] . K[j, kv(h)]) + slope[h] * (j - i)) V[j, kv(h)] over the
// positions j that row r (at position i) sees: j <= i, i - j < window where window > 0, and j / chunk = i / chunk where
// chunk > 0. kv(h) = h / (heads / kv_heads). cap(s) = softcap * tanh(s / softcap) where softcap > 0. sinks[h] is an
// extra score that takes part in the softmax's denominator only. q: f32 [rows, heads * head_dim]; cache: kv_cache.h;
// spans: Span [sequences]; out: f32 [rows, heads * v_head_dim].
// Where `latent` is set (multi-head latent attention, DeepSeek-AI 2024, absorbed form) the cache holds one head, whose
// value is a latent and whose key is the rotated part that all heads share: a position's key is its latent, then its
// rotated key, and a query q: f32 [rows, heads * v_head_dim], then q_rotated: f32 [rows, heads * head_dim].
// selected: f32 [rows, top], the numbers of the only positions that a row sees, in any order; negative ones are none.
// Blocks of 64 positions are taken in order, from that of the first position seen, with a running maximum (Milakov &
// Gimelshein 2018); the order does not depend on what else is in the batch.
#pragma once
#include "kv_cache.h"
#include "signature.h"

namespace ferrule {

struct Attention {
    uint32_t heads;
    uint32_t kv_heads;
    uint32_t head_dim;
    uint32_t v_head_dim;
    uint32_t window;
    uint32_t chunk;
    uint32_t latent;
    uint32_t top;
    float scale;
    float softcap;
};

namespace attention {

enum Operand { q, q_rotated, cache, spans, block_table, sinks, slopes, selected, out };
enum Constant { has_sinks, has_slopes, has_selected, fc_head_dim, fc_v_head_dim, fc_window, fc_chunk, fc_softcap };

// Metal: a simdgroup takes kTileRows rows of a sequence; its threadgroup memory, in floats, holds their queries [8,
// key_columns], scores [8, 64], and a matrix [8, 8].
FERRULE_CONSTANT uint32_t kTileRows = 8;
FERRULE_CONSTANT uint32_t kMaxValues = 576;  // v_head_dim
constexpr uint32_t key_columns(uint32_t head_dim) {
    return (head_dim + 7) / 8 * 8;
}
constexpr uint32_t tile_floats(uint32_t head_dim) {
    return kTileRows * (key_columns(head_dim) + kCacheBlock + 8);
}

// Metal, latents (absorbed_attention): a threadgroup takes kTileRows heads of a row; its memory, in floats, holds their
// queries, of the columns of latents and rotated keys, scores [8, 64], factors [8], slots [64] and a matrix [8, 8] of
// each simdgroup.
FERRULE_CONSTANT uint32_t kLatentSimdgroups = 4;
FERRULE_CONSTANT uint32_t kMaxLatent = 512;
FERRULE_CONSTANT uint32_t kMaxRotated = 256;
constexpr uint32_t latent_floats(uint32_t head_dim, uint32_t v_head_dim) {
    return kTileRows * (key_columns(v_head_dim) + key_columns(head_dim) + kCacheBlock + 1) + kCacheBlock +
           64 * kLatentSimdgroups;
}

#ifndef __METAL_VERSION__
inline constexpr ParamField fields[] = {{"heads", FieldType::u32, offsetof(Attention, heads)},
                                        {"kv_heads", FieldType::u32, offsetof(Attention, kv_heads)},
                                        {"head_dim", FieldType::u32, offsetof(Attention, head_dim)},
                                        {"v_head_dim", FieldType::u32, offsetof(Attention, v_head_dim)},
                                        {"window", FieldType::u32, offsetof(Attention, window)},
                                        {"chunk", FieldType::u32, offsetof(Attention, chunk)},
                                        {"latent", FieldType::u32, offsetof(Attention, latent)},
                                        {"top", FieldType::u32, offsetof(Attention, top)},
                                        {"scale", FieldType::f32, offsetof(Attention, scale)},
                                        {"softcap", FieldType::f32, offsetof(Attention, softcap)}};
inline constexpr OperandInfo operands[] = {{"q", Access::read},
                                           {"q_rotated", Access::read, true},
                                           {"cache", Access::read},
                                           {"spans", Access::read},
                                           {"block_table", Access::read},
                                           {"sinks", Access::read, true},
                                           {"slopes", Access::read, true},
                                           {"selected", Access::read, true},
                                           {"out", Access::write}};
inline constexpr OpSignature signature{"attention", sizeof(Attention), fields, operands};

// As many simdgroups per threadgroup as its memory allows, up to four. Every sequence may end in a partial tile.
inline constexpr MetalDispatch metal_dispatch(const Attention& params, const LaunchSizes& sizes) {
    const uint32_t tile_bytes = tile_floats(params.head_dim) * sizeof(float);
    const uint32_t simdgroups = std::clamp(32768 / tile_bytes, 1u, 4u);
    const uint32_t tiles = (sizes.rows + (kTileRows - 1) * sizes.sequences) / kTileRows;
    return {.x = ceil_div(tiles, simdgroups),
            .y = params.heads,
            .threads = simdgroups * kSimdWidth,
            .threadgroup_bytes = simdgroups * tile_bytes};
}

// absorbed_attention_<kv>
inline constexpr MetalDispatch latent_dispatch(const Attention& params, const LaunchSizes& sizes) {
    return {
        .x = ceil_div(params.heads, kTileRows),
        .z = sizes.rows,
        .threads = kLatentSimdgroups * kSimdWidth,
        .threadgroup_bytes = latent_floats(params.head_dim, params.v_head_dim) * static_cast<uint32_t>(sizeof(float))};
}
#endif

}  // namespace attention

}  // namespace ferrule
