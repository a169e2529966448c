// qkv_prepare, see csrc/params/qkv_prepare.h: a simdgroup per head of a row, q heads first, then k, then v.
// Each lane reads and writes the same values of its head, so that q can be changed in place.
#include <metal_stdlib>

#include "../csrc/params/qkv_prepare.h"
#include "kv_cache.h"
#include "rope_pairs.h"

using namespace metal;
using namespace ferrule;

constant bool has_q_weight [[function_constant(qkv_prepare::has_q_weight)]];
constant bool has_k_weight [[function_constant(qkv_prepare::has_k_weight)]];
constant bool has_table [[function_constant(qkv_prepare::has_table)]];
constant uint fc_pairing [[function_constant(qkv_prepare::fc_pairing)]];
constant bool fc_has_q_norm [[function_constant(qkv_prepare::fc_has_q_norm)]];
constant bool fc_has_k_norm [[function_constant(qkv_prepare::fc_has_k_norm)]];
constant bool fc_has_v_norm [[function_constant(qkv_prepare::fc_has_v_norm)]];
constant float fc_limit [[function_constant(qkv_prepare::fc_limit)]];

// One head of a row and how its values are normalised.
struct Head {
    device const float* x;
    uint width;
    uint n_pairs;  // that are rotated
    bool has_norm;
    device const float* weight;  // null: 1
};

static float limited(thread const Head& head, uint i) {
    // Comparisons, unlike min and max, pass NaN on.
    const float x = head.x[i];
    if (fc_limit == 0) return x;
    return x > fc_limit ? fc_limit : x < -fc_limit ? -fc_limit : x;
}

static float sum_of_squares(thread const Head& head, uint lane) {
    float sum = 0;
    for (uint i = lane; i < head.width - head.n_pairs; i += kSimdWidth) {
        if (i < head.n_pairs) {
            const RopePair pair = rope_pair(fc_pairing, i, head.n_pairs);
            const float a = limited(head, pair.first), b = limited(head, pair.second);
            sum += a * a + b * b;
        } else {
            const float a = limited(head, head.n_pairs + i);
            sum += a * a;
        }
    }
    return simd_sum(sum);
}

static float normalised(thread const Head& head, uint i, float factor, float weight_offset) {
    return limited(head, i) * factor * (head.weight != nullptr ? weight_offset + head.weight[i] : 1.0f);
}

// Normalises and rotates a head; value i goes to out[i * stride].
template <class T>
static void prepare(thread const Head& head,
                    device const float* cosines,
                    constant QkvPrepare& params,
                    uint lane,
                    device T* out,
                    uint stride) {
    const uint n = head.n_pairs;
    const float offset = params.weight_offset;
    const float factor =
        head.has_norm ? precise::rsqrt(sum_of_squares(head, lane) / float(head.width) + params.eps) : 1.0f;
    for (uint i = lane; i < head.width - n; i += kSimdWidth) {
        if (i < n) {
            const RopePair pair = rope_pair(fc_pairing, i, n);
            const float a = normalised(head, pair.first, factor, offset);
            const float b = normalised(head, pair.second, factor, offset);
            const float2 rotated = rotate(a, b, cosines[i], cosines[n + i]);
            out[pair.first * stride] = T(rotated.x);
            out[pair.second * stride] = T(rotated.y);
        } else {
            out[(n + i) * stride] = T(normalised(head, n + i, factor, offset));
        }
    }
}

template <class T>
kernel void prepare_head(device float* q [[buffer(qkv_prepare::q)]],
                         device const float* k [[buffer(qkv_prepare::k)]],
                         device const float* v [[buffer(qkv_prepare::v)]],
                         device const float* q_weight
                         [[buffer(qkv_prepare::q_weight), function_constant(has_q_weight)]],
                         device const float* k_weight
                         [[buffer(qkv_prepare::k_weight), function_constant(has_k_weight)]],
                         device const float* table [[buffer(qkv_prepare::table), function_constant(has_table)]],
                         device const int* slots [[buffer(qkv_prepare::slots)]],
                         device T* cache [[buffer(qkv_prepare::cache)]],
                         constant QkvPrepare& params [[buffer(params_buffer)]],
                         uint2 group [[threadgroup_position_in_grid]],
                         uint lane [[thread_index_in_simdgroup]]) {
    const uint heads = params.heads, kv_heads = params.kv_heads;
    const uint head_dim = params.head_dim, v_head_dim = params.v_head_dim;
    const uint row = group.y, n_pairs = has_table ? params.n_pairs : 0;
    device const float* cosines = nullptr;
    if (has_table) cosines = table + ulong(row) * 2 * n_pairs;

    if (group.x < heads) {
        device float* x = q + (ulong(row) * heads + group.x) * head_dim;
        Head head = {x, head_dim, n_pairs, fc_has_q_norm, nullptr};
        if (has_q_weight) head.weight = q_weight;
        if (fc_has_q_norm || has_table || fc_limit > 0) prepare(head, cosines, params, lane, x, 1);
        return;
    }
    if (slots[row] < 0) return;
    const uint slot = slots[row], block = slot / kCacheBlock;
    const bool is_key = group.x < heads + kv_heads;
    const uint kv_head = (group.x - heads) % kv_heads;
    cache += cache_keys(block, kv_head, kv_heads, head_dim, v_head_dim);
    if (is_key) {
        Head head = {k + (ulong(row) * kv_heads + kv_head) * head_dim, head_dim, n_pairs, fc_has_k_norm, nullptr};
        if (has_k_weight) head.weight = k_weight;
        prepare(head, cosines, params, lane, cache + key_element(slot, 0), kCacheBlock);
    } else {
        const Head head = {v + (ulong(row) * kv_heads + kv_head) * v_head_dim, v_head_dim, 0, fc_has_v_norm, nullptr};
        prepare(head, cosines, params, lane, cache + value_element(slot, 0, head_dim, v_head_dim), 1);
    }
}

template [[host_name("qkv_prepare_f16")]] kernel decltype(prepare_head<half>) prepare_head<half>;
template [[host_name("qkv_prepare_f32")]] kernel decltype(prepare_head<float>) prepare_head<float>;
