// qkv_prepare, see csrc/params/qkv_prepare.h: a simdgroup per head of a row, q heads first, then k, then v.
// But for norms over whole rows, each lane reads and writes the same values of its head, so that q can be changed in
// place.
#include <metal_stdlib>

#include "../csrc/params/qkv_prepare.h"
#include "cache_vector.h"
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
constant bool fc_norm_last [[function_constant(qkv_prepare::fc_norm_last)]];
constant bool fc_whole_rows [[function_constant(qkv_prepare::fc_whole_rows)]];
constant bool has_k [[function_constant(qkv_prepare::has_k)]];
constant bool has_out [[function_constant(qkv_prepare::has_out)]];
constant float fc_limit [[function_constant(qkv_prepare::fc_limit)]];

// One head of a row and how its values are normalised.
struct Head {
    device const float* x;
    uint width;
    uint n_pairs;  // that are rotated
    bool has_norm;
    device const float* weight;  // null: 1
    device const float* row;     // null: the norm is of the head alone
    uint row_width;
};

static float limited(float x) {
    // Comparisons, unlike min and max, pass NaN on.
    if (fc_limit == 0) return x;
    return x > fc_limit ? fc_limit : x < -fc_limit ? -fc_limit : x;
}

// A pair as norms see it.
static float2 read_pair(thread const Head& head, RopePair pair, device const float* cosines, uint i) {
    const float a = limited(head.x[pair.first]), b = limited(head.x[pair.second]);
    return fc_norm_last ? rotate(a, b, cosines[i], cosines[head.n_pairs + i]) : float2(a, b);
}

static float mean_square(thread const Head& head, device const float* cosines, uint lane) {
    float sum = 0;
    if (head.row != nullptr) {
        for (uint i = lane; i < head.row_width; i += kSimdWidth) {
            const float a = limited(head.row[i]);
            sum += a * a;
        }
        return simd_sum(sum) / float(head.row_width);
    }
    for (uint i = lane; i < head.width - head.n_pairs; i += kSimdWidth) {
        if (i < head.n_pairs) {
            const float2 x = read_pair(head, rope_pair(fc_pairing, i, head.n_pairs), cosines, i);
            sum += x.x * x.x + x.y * x.y;
        } else {
            const float a = limited(head.x[head.n_pairs + i]);
            sum += a * a;
        }
    }
    return simd_sum(sum) / float(head.width);
}

// Normalises and rotates a head; value i goes to out[i * stride].
template <class Out>
static void prepare(thread const Head& head,
                    device const float* cosines,
                    constant QkvPrepare& params,
                    uint lane,
                    Out out,
                    uint stride) {
    const uint n = head.n_pairs;
    const float factor = head.has_norm ? precise::rsqrt(mean_square(head, cosines, lane) + params.eps) : 1.0f;
    for (uint i = lane; i < head.width - n; i += kSimdWidth) {
        if (i < n) {
            const RopePair pair = rope_pair(fc_pairing, i, n);
            float2 x = read_pair(head, pair, cosines, i) * factor;
            if (head.weight != nullptr) {
                x.x *= params.weight_offset + head.weight[pair.first];
                x.y *= params.weight_offset + head.weight[pair.second];
            }
            if (!fc_norm_last) x = rotate(x.x, x.y, cosines[i], cosines[n + i]);
            out[pair.first * stride] = x.x;
            out[pair.second * stride] = x.y;
        } else {
            float x = limited(head.x[n + i]) * factor;
            if (head.weight != nullptr) x *= params.weight_offset + head.weight[n + i];
            out[(n + i) * stride] = x;
        }
    }
}

// The same, into the cache; `staged` [head.width] is memory for it.
template <class T>
static void append(thread const Head& head,
                   device const float* cosines,
                   constant QkvPrepare& params,
                   uint lane,
                   CacheVector<T> to,
                   threadgroup float*) {
    prepare(head, cosines, params, lane, to.values, to.stride);
}
static void append(thread const Head& head,
                   device const float* cosines,
                   constant QkvPrepare& params,
                   uint lane,
                   CacheVector<int8_t> to,
                   threadgroup float* staged) {
    prepare(head, cosines, params, lane, staged, 1);
    simdgroup_barrier(mem_flags::mem_threadgroup);
    for (uint group = 0; group < cache_groups(head.width); ++group) {
        const uint i = group * kCacheGroup + lane;
        store_group(to, group, lane, head.width, i < head.width ? staged[i] : 0.0f);
    }
}

template <class T>
kernel void prepare_head(device float* q [[buffer(qkv_prepare::q)]],
                         device const float* k [[buffer(qkv_prepare::k), function_constant(has_k)]],
                         device const float* v [[buffer(qkv_prepare::v), function_constant(has_k)]],
                         device const float* q_weight
                         [[buffer(qkv_prepare::q_weight), function_constant(has_q_weight)]],
                         device const float* k_weight
                         [[buffer(qkv_prepare::k_weight), function_constant(has_k_weight)]],
                         device const float* table [[buffer(qkv_prepare::table), function_constant(has_table)]],
                         device const int* slots [[buffer(qkv_prepare::slots), function_constant(has_k)]],
                         device T* cache [[buffer(qkv_prepare::cache), function_constant(has_k)]],
                         device float* out [[buffer(qkv_prepare::out), function_constant(has_out)]],
                         constant QkvPrepare& params [[buffer(params_buffer)]],
                         threadgroup float* staged [[threadgroup(0)]],
                         uint2 group [[threadgroup_position_in_grid]],
                         uint lane [[thread_index_in_simdgroup]]) {
    const uint heads = params.heads, kv_heads = params.kv_heads;
    const uint head_dim = params.head_dim, v_head_dim = params.v_head_dim;
    const uint row = group.y, n_pairs = has_table ? params.n_pairs : 0;
    device const float* cosines = nullptr;
    if (has_table) cosines = table + ulong(row) * 2 * n_pairs;

    if (group.x < heads) {
        device float* all = q + ulong(row) * heads * head_dim;
        device float* x = all + group.x * head_dim;
        Head head = {x, head_dim, n_pairs, fc_has_q_norm, nullptr, nullptr, heads * head_dim};
        if (fc_whole_rows) head.row = all;
        if (has_q_weight) head.weight = q_weight + (fc_whole_rows ? group.x * head_dim : 0);
        device float* result = x;
        if (has_out) result = out + (ulong(row) * heads + group.x) * head_dim;
        if (has_out || fc_has_q_norm || has_table || fc_limit > 0) prepare(head, cosines, params, lane, result, 1);
        return;
    }
    if (!has_k || slots[row] < 0) return;
    const uint slot = slots[row];
    const bool is_key = group.x < heads + kv_heads;
    const uint kv_head = (group.x - heads) % kv_heads;
    if (is_key) {
        device const float* all = k + ulong(row) * kv_heads * head_dim;
        Head head = {all + kv_head * head_dim, head_dim, n_pairs, fc_has_k_norm, nullptr, nullptr, kv_heads * head_dim};
        if (fc_whole_rows) head.row = all;
        if (has_k_weight) head.weight = k_weight + (fc_whole_rows ? kv_head * head_dim : 0);
        const CacheVector<T> to = key_vector(cache, slot, kv_head, kv_heads, head_dim, v_head_dim);
        append(head, cosines, params, lane, to, staged);
    } else {
        device const float* x = v + (ulong(row) * kv_heads + kv_head) * v_head_dim;
        const Head head = {x, v_head_dim, 0, fc_has_v_norm, nullptr, nullptr, 0};
        const CacheVector<T> to = value_vector(cache, slot, kv_head, kv_heads, head_dim, v_head_dim);
        append(head, cosines, params, lane, to, staged);
    }
}

template [[host_name("qkv_prepare_f16")]] kernel decltype(prepare_head<half>) prepare_head<half>;
template [[host_name("qkv_prepare_f32")]] kernel decltype(prepare_head<float>) prepare_head<float>;
template [[host_name("qkv_prepare_q8_0")]] kernel decltype(prepare_head<int8_t>) prepare_head<int8_t>;
