// latent_attention: multi-head latent attention (DeepSeek-AI 2024) in its expanded form. With latent c[j] and rotated
// key r[j] of position j:
//   out[t, h] = softmax_j(scale * (q[t, h] . (c[j] k_up[h]) + q_rotated[t, h] . r[j])) (v_up[h] c[j])
// over positions j up to that of row t. q: f32 [rows, heads * plain]; q_rotated: f32 [rows, heads * rotated]; cache:
// kv_cache.h, one head whose key is the rotated part and whose value is the latent; spans: Span [sequences]; out: f32
// [rows, heads * v_dim].
// k_up, v_up: u64 [heads], the addresses of each head's matrices [rank, plain] and [v_dim, rank]; k_format and v_format
// are their formats' GGML types.
// A head's keys and values are expanded from a block of latents once for all rows of a sequence.
#pragma once
#include "kv_cache.h"
#include "signature.h"

namespace ferrule {

struct LatentAttention {
    uint32_t heads;
    uint32_t plain;
    uint32_t rotated;
    uint32_t rank;
    uint32_t v_dim;
    uint32_t k_format;
    uint32_t v_format;
    float scale;
};

namespace latent_attention {

enum Operand { q, q_rotated, cache, spans, block_table, k_up, v_up, out };

#ifndef __METAL_VERSION__
inline constexpr ParamField fields[] = {{"heads", FieldType::u32, offsetof(LatentAttention, heads)},
                                        {"plain", FieldType::u32, offsetof(LatentAttention, plain)},
                                        {"rotated", FieldType::u32, offsetof(LatentAttention, rotated)},
                                        {"rank", FieldType::u32, offsetof(LatentAttention, rank)},
                                        {"v_dim", FieldType::u32, offsetof(LatentAttention, v_dim)},
                                        {"k_format", FieldType::u32, offsetof(LatentAttention, k_format)},
                                        {"v_format", FieldType::u32, offsetof(LatentAttention, v_format)},
                                        {"scale", FieldType::f32, offsetof(LatentAttention, scale)}};
inline constexpr OperandInfo operands[] = {
    {"q", Access::read},           {"q_rotated", Access::read}, {"cache", Access::read}, {"spans", Access::read},
    {"block_table", Access::read}, {"k_up", Access::read},      {"v_up", Access::read},  {"out", Access::write}};
inline constexpr OpSignature signature{"latent_attention", sizeof(LatentAttention), fields, operands};
#endif

}  // namespace latent_attention

}  // namespace ferrule
