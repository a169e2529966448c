// kv_append, see csrc/params/kv_append.h: a simdgroup per group of 32 values of a row's keys, then of its values.
#include <metal_stdlib>

#include "../csrc/params/kv_append.h"
#include "cache_vector.h"

using namespace metal;
using namespace ferrule;

constant bool has_v [[function_constant(kv_append::has_v)]];

template <class T>
kernel void append(device const float* k [[buffer(kv_append::k)]],
                   device const float* v [[buffer(kv_append::v), function_constant(has_v)]],
                   device const int* slots [[buffer(kv_append::slots)]],
                   device T* cache [[buffer(kv_append::cache)]],
                   constant KvAppend& params [[buffer(params_buffer)]],
                   uint2 position [[thread_position_in_grid]],
                   uint lane [[thread_index_in_simdgroup]]) {
    const uint kv_heads = params.kv_heads, head_dim = params.head_dim, v_head_dim = params.v_head_dim;
    const uint k_groups = cache_groups(head_dim), v_groups = cache_groups(v_head_dim);
    const uint row = position.y, number = position.x / kCacheGroup;
    if (number >= kv_heads * (k_groups + v_groups) || slots[row] < 0) return;
    const uint slot = slots[row];
    if (number < kv_heads * k_groups) {
        const uint head = number / k_groups, group = number % k_groups, i = group * kCacheGroup + lane;
        const float x = i < head_dim ? k[(ulong(row) * kv_heads + head) * head_dim + i] : 0.0f;
        store_group(key_vector(cache, slot, head, kv_heads, head_dim, v_head_dim), group, lane, head_dim, x);
    } else if (has_v) {
        const uint n = number - kv_heads * k_groups;
        const uint head = n / v_groups, group = n % v_groups, i = group * kCacheGroup + lane;
        const float x = i < v_head_dim ? v[(ulong(row) * kv_heads + head) * v_head_dim + i] : 0.0f;
        store_group(value_vector(cache, slot, head, kv_heads, head_dim, v_head_dim), group, lane, v_head_dim, x);
    }
}

template [[host_name("kv_append_f16")]] kernel decltype(append<half>) append<half>;
template [[host_name("kv_append_f32")]] kernel decltype(append<float>) append<float>;
template [[host_name("kv_append_q8_0")]] kernel decltype(append<int8_t>) append<int8_t>;
