// kv_append, see csrc/params/kv_append.h: a thread per value of a row's keys, then its values.
#include <metal_stdlib>

#include "../csrc/params/kv_append.h"
#include "kv_cache.h"

using namespace metal;
using namespace ferrule;

constant bool has_v [[function_constant(kv_append::has_v)]];

template <class T>
kernel void append(device const float* k [[buffer(kv_append::k)]],
                   device const float* v [[buffer(kv_append::v), function_constant(has_v)]],
                   device const int* slots [[buffer(kv_append::slots)]],
                   device T* cache [[buffer(kv_append::cache)]],
                   constant KvAppend& params [[buffer(params_buffer)]],
                   uint2 position [[thread_position_in_grid]]) {
    const uint head_dim = params.head_dim, v_head_dim = params.v_head_dim;
    const uint k_width = params.kv_heads * head_dim, v_width = params.kv_heads * v_head_dim;
    const uint row = position.y;
    if (position.x >= k_width + v_width || slots[row] < 0) return;
    const uint slot = slots[row], block = slot / kCacheBlock;
    if (position.x < k_width) {
        const uint head = position.x / head_dim, i = position.x % head_dim;
        const ulong keys = cache_keys(block, head, params.kv_heads, head_dim, v_head_dim);
        cache[keys + key_element(slot, i)] = T(k[ulong(row) * k_width + position.x]);
    } else if (has_v) {
        const uint j = position.x - k_width, head = j / v_head_dim, i = j % v_head_dim;
        const ulong keys = cache_keys(block, head, params.kv_heads, head_dim, v_head_dim);
        cache[keys + value_element(slot, i, head_dim, v_head_dim)] = T(v[ulong(row) * v_width + j]);
    }
}

template [[host_name("kv_append_f16")]] kernel decltype(append<half>) append<half>;
template [[host_name("kv_append_f32")]] kernel decltype(append<float>) append<float>;
