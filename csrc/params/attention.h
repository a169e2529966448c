// attention: out[r, h] = softmax_j(cap(scale * q[r, h] . K[j, kv(h)]) + slope[h] * (j - i)) V[j, kv(h)] over the positions j that
// row r (at position i) sees: j <= i, and i - j < window where window > 0. kv(h) = h / (heads / kv_heads).
// cap(s) = softcap * tanh(s / softcap) where softcap > 0. sinks[h] is an extra score that takes part in the softmax's
// denominator only. q: f32 [rows, heads * head_dim]; cache: kv_cache.h; spans: Span [sequences]; out: f32
// [rows, heads * v_head_dim].
// Blocks of 64 positions are taken in order, from position 0 or the window's first block, with a running maximum
// (Milakov & Gimelshein 2018); the order does not depend on what else is in the batch.
#pragma once
#include "signature.h"
#include "kv_cache.h"

namespace ferrule {

struct Attention {
    uint32_t heads;
    uint32_t kv_heads;
    uint32_t head_dim;
    uint32_t v_head_dim;
    uint32_t window;
    float scale;
    float softcap;
};

#ifndef __METAL_VERSION__
namespace attention {
enum Operand { q, cache, spans, block_table, sinks, slopes, out };
inline constexpr ParamField fields[] = {{"heads", FieldType::u32, offsetof(Attention, heads)},
                                        {"kv_heads", FieldType::u32, offsetof(Attention, kv_heads)},
                                        {"head_dim", FieldType::u32, offsetof(Attention, head_dim)},
                                        {"v_head_dim", FieldType::u32, offsetof(Attention, v_head_dim)},
                                        {"window", FieldType::u32, offsetof(Attention, window)},
                                        {"scale", FieldType::f32, offsetof(Attention, scale)},
                                        {"softcap", FieldType::f32, offsetof(Attention, softcap)}};
inline constexpr OperandInfo operands[] = {
    {"q", Access::read},
    {"cache", Access::read},
    {"spans", Access::read},
    {"block_table", Access::read},
    {"sinks", Access::read, true},
    {"slopes", Access::read, true},
    {"out", Access::write}};
inline constexpr OpSignature signature{"attention", sizeof(Attention), fields, operands};
}  // namespace attention
#endif

}  // namespace ferrule
