// One layer's KV cache in bfloat16 (kv_cache.h), in pairs as dot products take them: of two dimensions of a key, of two
// positions of a value.
#pragma once
#include "cache_layer.h"

namespace ferrule::cpu::FERRULE_ISA {

using Pair = int32_t;  // two bfloat16 values, the first in the lower half

template <>
struct CacheLayer<Pair> {
    Pair* data;
    uint32_t kv_heads;
    uint32_t head_dim;
    uint32_t v_head_dim;

    // K of a block: [padded / 2][64].
    Pair* keys(uint32_t block, uint32_t kv_head) const {
        return data + (size_t{block} * kv_heads + kv_head) * (block_pairs(head_dim) + block_pairs(v_head_dim));
    }
    // V of a block: [32][padded].
    Pair* values(uint32_t block, uint32_t kv_head) const { return keys(block, kv_head) + block_pairs(head_dim); }

    // Stores one position's key; `slot` must not be negative.
    void append_key(int32_t slot, uint32_t kv_head, const float* key) const {
        Pair* column = keys(block_of(slot), kv_head) + position_of(slot);
        for_each_32(key, head_dim, [&](uint32_t begin, uint32_t n, simd::i32x16 rounded) {
            Pair pairs[16];
            simd::store(pairs, rounded);
            for (uint32_t i = 0; i < (n + 1) / 2; ++i) column[size_t{begin / 2 + i} * kCacheBlock] = pairs[i];
        });
    }
    void append_value(int32_t slot, uint32_t kv_head, const float* value) const {
        const uint32_t position = position_of(slot);
        Pair* row = values(block_of(slot), kv_head) + position / 2 * (rounded_vector_bytes(v_head_dim) / 2);
        uint16_t* half = reinterpret_cast<uint16_t*>(row) + position % 2;
        for_each_32(value, v_head_dim, [&](uint32_t begin, uint32_t n, simd::i32x16 rounded) {
            uint16_t values[32];
            __builtin_memcpy(values, &rounded, sizeof values);
            for (uint32_t i = 0; i < n; ++i) half[size_t{2} * (begin + i)] = values[i];
        });
    }

  private:
    static size_t block_pairs(uint32_t width) {
        return size_t{kCacheBlock} * rounded_vector_bytes(width) / sizeof(Pair);
    }

    // Calls store(begin, n, rounded) with x[begin, begin + n), up to 32 at a time.
    template <class Store>
    static void for_each_32(const float* x, uint32_t width, Store store) {
        for (uint32_t i = 0; i < width; i += 32) {
            const uint32_t n = width - i < 32 ? width - i : 32;
            const simd::f32x16 first = simd::load_partial(x + i, n < 16 ? n : 16);
            const simd::f32x16 second = n > 16 ? simd::load_partial(x + i + 16, n - 16) : simd::zero_f32();
            store(i, n, to_bf16(first, second));
        }
    }
};

}  // namespace ferrule::cpu::FERRULE_ISA
