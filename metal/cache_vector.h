// One position's key or value vector in the cache, to be written, see csrc/params/kv_cache.h.
#pragma once
#include <metal_stdlib>

#include "kv_cache.h"

namespace ferrule {

// Value i is at values[i * stride].
template <class T>
struct CacheVector {
    device T* values;
    uint stride;
};

template <>
struct CacheVector<int8_t> {
    device int8_t* values;
    uint stride;
    device half* scales;  // that of group g is at scales[g * kCacheBlock]
};

// `block` is where a block's keys, or values, of one KV head begin.
template <class T>
inline CacheVector<T> cache_vector(device T* block, uint first, uint stride, uint, uint) {
    return CacheVector<T>{block + first, stride};
}
inline CacheVector<int8_t> cache_vector(device int8_t* block, uint first, uint stride, uint width, uint position) {
    device half* scales = (device half*)(block + kCacheBlock * width);
    return CacheVector<int8_t>{block + first, stride, scales + position};
}

template <class T>
inline CacheVector<T> key_vector(device T* cache,
                                 uint slot,
                                 uint kv_head,
                                 uint kv_heads,
                                 uint head_dim,
                                 uint v_head_dim) {
    const uint position = slot % kCacheBlock;
    cache += cache_keys<T>(slot / kCacheBlock, kv_head, kv_heads, head_dim, v_head_dim);
    return cache_vector(cache, position, kCacheBlock, head_dim, position);
}

template <class T>
inline CacheVector<T> value_vector(device T* cache,
                                   uint slot,
                                   uint kv_head,
                                   uint kv_heads,
                                   uint head_dim,
                                   uint v_head_dim) {
    const uint position = slot % kCacheBlock;
    cache += cache_keys<T>(slot / kCacheBlock, kv_head, kv_heads, head_dim, v_head_dim) + cache_elements<T>(head_dim);
    return cache_vector(cache, position * v_head_dim, 1, v_head_dim, position);
}

// Stores x, value `group` * kCacheGroup + lane of a vector of `width` values. All lanes of a simdgroup must call it,
// for a simdgroup is as wide as a group.
template <class T>
inline void store_group(CacheVector<T> to, uint group, uint lane, uint width, float x) {
    const uint i = group * kCacheGroup + lane;
    if (i < width) to.values[i * to.stride] = T(x);
}
inline void store_group(CacheVector<int8_t> to, uint group, uint lane, uint width, float x) {
    const uint i = group * kCacheGroup + lane;
    // As integers, magnitudes are ordered like floats, with NaN above infinity.
    const uint magnitude = metal::simd_max(i < width ? metal::as_type<uint>(metal::fabs(x)) : 0u);
    const float step = metal::as_type<float>(magnitude) / 127.0f;
    const float inverse = step < kMinCacheStep ? 0.0f : 1.0f / step;
    if (i < width) to.values[i * to.stride] = int8_t(metal::round(x * inverse));
    if (lane == 0) to.scales[group * kCacheBlock] = half(step);
}

}  // namespace ferrule
