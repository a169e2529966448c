// Addresses in the paged cache, and its values, see csrc/params/kv_cache.h. Its elements are float, half or, of q8_0,
// int8_t.
#pragma once
#include <metal_stdlib>

#include "../csrc/params/kv_cache.h"

namespace ferrule {

// Elements that a block's keys, or values, of one KV head take.
template <class T>
inline uint cache_elements(uint width) {
    return kCacheBlock * width;
}
template <>
inline uint cache_elements<int8_t>(uint width) {
    return kCacheBlock * quantized_vector_bytes(width);
}

// Where the keys of a KV head begin in a block; its values begin cache_elements<T>(head_dim) after them.
template <class T>
inline ulong cache_keys(uint block, uint kv_head, uint kv_heads, uint head_dim, uint v_head_dim) {
    const uint elements = cache_elements<T>(head_dim) + cache_elements<T>(v_head_dim);
    return (ulong(block) * kv_heads + kv_head) * elements;
}

// The scales behind codes of q8_0: [groups][kCacheBlock].
inline device const half* cache_scales(device const int8_t* codes, uint width) {
    return (device const half*)(codes + kCacheBlock * width);
}

// Value i of the key, or value, at a position of a block.
template <class T>
inline float key_at(device const T* keys, uint position, uint i, uint) {
    return float(keys[i * kCacheBlock + position]);
}
inline float key_at(device const int8_t* keys, uint position, uint i, uint head_dim) {
    const half scale = cache_scales(keys, head_dim)[i / kCacheGroup * kCacheBlock + position];
    return float(scale) * float(keys[i * kCacheBlock + position]);
}
template <class T>
inline float value_at(device const T* values, uint position, uint i, uint v_head_dim) {
    return float(values[position * v_head_dim + i]);
}
inline float value_at(device const int8_t* values, uint position, uint i, uint v_head_dim) {
    const half scale = cache_scales(values, v_head_dim)[i / kCacheGroup * kCacheBlock + position];
    return float(scale) * float(values[position * v_head_dim + i]);
}

// The span that a row belongs to.
inline Span find_span(device const Span* spans, uint row) {
    uint i = 0;
    while (row >= spans[i].row_begin + spans[i].n_rows) ++i;
    return Span{spans[i].row_begin, spans[i].n_rows, spans[i].position_begin, spans[i].block_table_begin};
}

}  // namespace ferrule
