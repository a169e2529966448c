// One layer's KV cache (kv_cache.h) in f32 or f16 as the CPU kernels address, read and write it; quantized_cache.h has
// the same for q8_0, rounded_cache.h for bf16.
#pragma once
#include <cstddef>
#include <cstdint>

#include "../formats/float16.h"
#include "../params/kv_cache.h"
#include "simd/simd.h"

namespace ferrule::cpu::FERRULE_ISA {

using f16 = uint16_t;

// Of a slot, which must not be negative.
inline uint32_t block_of(int32_t slot) {
    return static_cast<uint32_t>(slot) / kCacheBlock;
}
inline uint32_t position_of(int32_t slot) {
    return static_cast<uint32_t>(slot) % kCacheBlock;
}

inline simd::f32x16 load_f32(const float* p) {
    return simd::load(p);
}
inline simd::f32x16 load_f32(const f16* p) {
    return simd::load_f16(p);
}
inline simd::f32x16 load_f32_partial(const float* p, uint32_t n) {
    return simd::load_partial(p, n);
}
inline simd::f32x16 load_f32_partial(const f16* p, uint32_t n) {
    return simd::load_f16_partial(p, n);
}
inline void store_as(float* p, simd::f32x16 x) {
    simd::store(p, x);
}
inline void store_as(f16* p, simd::f32x16 x) {
    simd::store_f16(p, x);
}

template <class T>
struct CacheLayer {
    T* data;
    uint32_t kv_heads;
    uint32_t head_dim;
    uint32_t v_head_dim;

    // K of a block, transposed: [head_dim][64].
    T* keys(uint32_t block, uint32_t kv_head) const {
        const size_t head_values = size_t{kCacheBlock} * (head_dim + v_head_dim);
        return data + (size_t{block} * kv_heads + kv_head) * head_values;
    }
    // V of a block: [64][v_head_dim].
    T* values(uint32_t block, uint32_t kv_head) const { return keys(block, kv_head) + size_t{kCacheBlock} * head_dim; }

    // All keys, all values of a block, as f32.
    void widen_keys(uint32_t block, uint32_t kv_head, float* out) const { widen(keys(block, kv_head), head_dim, out); }
    void widen_values(uint32_t block, uint32_t kv_head, float* out) const {
        widen(values(block, kv_head), v_head_dim, out);
    }

    // Values [begin, begin + n), n <= 16, of a position of a block; the others are anything.
    simd::f32x16 load_values(uint32_t block, uint32_t kv_head, uint32_t position, uint32_t begin, uint32_t n) const {
        return load_f32_partial(values(block, kv_head) + size_t{position} * v_head_dim + begin, n);
    }

    // Stores one position's key; `slot` must not be negative.
    void append_key(int32_t slot, uint32_t kv_head, const float* key) const {
        T* column = keys(block_of(slot), kv_head) + position_of(slot);
        for_each_16(key, head_dim, [&](uint32_t begin, uint32_t n, const T* values) {
            for (uint32_t i = 0; i < n; ++i) column[size_t{begin + i} * kCacheBlock] = values[i];
        });
    }
    void append_value(int32_t slot, uint32_t kv_head, const float* value) const {
        T* row = values(block_of(slot), kv_head) + size_t{position_of(slot)} * v_head_dim;
        for_each_16(value, v_head_dim, [&](uint32_t begin, uint32_t n, const T* values) {
            __builtin_memcpy(row + begin, values, n * sizeof(T));
        });
    }

  private:
    static void widen(const T* from, uint32_t width, float* out) {
        for (uint32_t i = 0; i < width * kCacheBlock; i += 16) simd::store(out + i, load_f32(from + i));
    }

    // Calls store(begin, n, values) with x[begin, begin + n) in the cache's type, up to 16 at a time.
    template <class Store>
    static void for_each_16(const float* x, uint32_t width, Store store) {
        for (uint32_t i = 0; i < width; i += 16) {
            const uint32_t n = width - i < 16 ? width - i : 16;
            T values[16];
            store_as(values, simd::load_partial(x + i, n));
            store(i, n, values);
        }
    }
};

}  // namespace ferrule::cpu::FERRULE_ISA
