// qkv_prepare: between the q, k, v projections and attention, in one launch per layer: q, k and v limited to [-limit,
// limit] (where limit > 0), RMS norms of q, k and v (each where has_*_norm is set; an absent weight means 1), rotation
// of q and k (where a table is given), and kv_append of the results. Where keys and values are those of an earlier
// layer, k, v, slots and cache are absent, and kv_heads is 0. q: f32 [rows, heads * head_dim], changed in place or,
// where `out` is given, left alone; the others as in rms_norm.h, rope.h and kv_append.h. Norms are of each head.
// norm_last: those of q and k follow the rotation. whole_rows: those of q and k are over all heads of a row, weights of
// the row's size; only Metal's kernels do that, and need `out`.
#pragma once
#include "kv_cache.h"
#include "metal_dispatch.h"
#include "signature.h"

namespace ferrule {

struct QkvPrepare {
    uint32_t heads;
    uint32_t kv_heads;
    uint32_t head_dim;
    uint32_t v_head_dim;
    uint32_t n_pairs;
    uint32_t pairing;
    uint32_t has_q_norm;
    uint32_t has_k_norm;
    uint32_t has_v_norm;
    uint32_t norm_last;
    uint32_t whole_rows;
    float eps;
    float weight_offset;
    float limit;
};

namespace qkv_prepare {

enum Operand { q, k, v, q_weight, k_weight, table, slots, cache, out };
enum Constant {
    has_q_weight,
    has_k_weight,
    has_table,
    fc_pairing,
    fc_has_q_norm,
    fc_has_k_norm,
    fc_has_v_norm,
    fc_norm_last,
    fc_whole_rows,
    fc_limit,
    has_k,
    has_out
};

#ifndef __METAL_VERSION__
inline constexpr ParamField fields[] = {{"heads", FieldType::u32, offsetof(QkvPrepare, heads)},
                                        {"kv_heads", FieldType::u32, offsetof(QkvPrepare, kv_heads)},
                                        {"head_dim", FieldType::u32, offsetof(QkvPrepare, head_dim)},
                                        {"v_head_dim", FieldType::u32, offsetof(QkvPrepare, v_head_dim)},
                                        {"n_pairs", FieldType::u32, offsetof(QkvPrepare, n_pairs)},
                                        {"pairing", FieldType::u32, offsetof(QkvPrepare, pairing)},
                                        {"has_q_norm", FieldType::u32, offsetof(QkvPrepare, has_q_norm)},
                                        {"has_k_norm", FieldType::u32, offsetof(QkvPrepare, has_k_norm)},
                                        {"has_v_norm", FieldType::u32, offsetof(QkvPrepare, has_v_norm)},
                                        {"norm_last", FieldType::u32, offsetof(QkvPrepare, norm_last)},
                                        {"whole_rows", FieldType::u32, offsetof(QkvPrepare, whole_rows)},
                                        {"eps", FieldType::f32, offsetof(QkvPrepare, eps)},
                                        {"weight_offset", FieldType::f32, offsetof(QkvPrepare, weight_offset)},
                                        {"limit", FieldType::f32, offsetof(QkvPrepare, limit)}};
inline constexpr OperandInfo operands[] = {
    {"q", Access::read_write},        {"k", Access::read, true},           {"v", Access::read, true},
    {"q_weight", Access::read, true}, {"k_weight", Access::read, true},    {"table", Access::read, true},
    {"slots", Access::read, true},    {"cache", Access::read_write, true}, {"out", Access::write, true}};
inline constexpr OpSignature signature{"qkv_prepare", sizeof(QkvPrepare), fields, operands};

// A simdgroup per head of q, then k, then v, of a row, with memory for a key or value that is to be quantised.
inline constexpr MetalDispatch metal_dispatch(const QkvPrepare& params, const LaunchSizes& sizes) {
    return {.x = params.heads + 2 * params.kv_heads,
            .y = sizes.rows,
            .threadgroup_bytes = std::max(params.head_dim, params.v_head_dim) * static_cast<uint32_t>(sizeof(float))};
}
#endif

}  // namespace qkv_prepare

}  // namespace ferrule
