// One layer's KV cache in q8_0 (kv_cache.h), read and written as cache_layer.h does the others.
#pragma once
#include "cache_layer.h"

namespace ferrule::cpu::FERRULE_ISA {

// Codes of up to 32 values, and what they are multiplied by.
struct QuantizedGroup {
    int8_t codes[kCacheGroup];
    f16 scale;
};

// To the nearest integer, ties away from zero.
inline simd::i32x16 round_away(simd::f32x16 x) {
    using namespace simd;
    const f32x16 magnitude = abs(x), nearest = to_f32(round_i32(magnitude));
    const f32x16 tie = select(equal(magnitude - nearest, set1(0.5f)), set1(1.0f), zero_f32());  // that went down
    const f32x16 rounded = nearest + tie;
    return round_i32(select(less(x, zero_f32()), zero_f32() - rounded, rounded));
}

inline QuantizedGroup quantize_group(const float* x, uint32_t n) {
    using namespace simd;
    const f32x16 a = load_partial(x, n < 16 ? n : 16), b = load_partial(x + 16, n > 16 ? n - 16 : 0);
    // As integers, magnitudes are ordered like floats, with NaN above infinity.
    const int32_t magnitude = reduce_max(max(as_i32(abs(a)), as_i32(abs(b))));
    const float step = __builtin_bit_cast(float, magnitude) / 127.0f;
    const f32x16 inverse = set1(step < kMinCacheStep ? 0.0f : 1.0f / step);
    QuantizedGroup group;
    store_i8(group.codes, round_away(a * inverse));
    store_i8(group.codes + 16, round_away(b * inverse));
    group.scale = formats::f32_to_f16(step);
    return group;
}

template <>
struct CacheLayer<int8_t> {
    int8_t* data;
    uint32_t kv_heads;
    uint32_t head_dim;
    uint32_t v_head_dim;

    // K of a block: codes [head_dim][64], scales [groups][64]; V: codes [64][v_head_dim], scales [groups][64].
    struct Vectors {
        int8_t* codes;
        f16* scales;
    };
    Vectors keys(uint32_t block, uint32_t kv_head) const {
        const size_t all = quantized_vector_bytes(head_dim) + quantized_vector_bytes(v_head_dim);
        return vectors(data + (size_t{block} * kv_heads + kv_head) * kCacheBlock * all, head_dim);
    }
    Vectors values(uint32_t block, uint32_t kv_head) const {
        return vectors(keys(block, kv_head).codes + size_t{kCacheBlock} * quantized_vector_bytes(head_dim), v_head_dim);
    }

    void widen_keys(uint32_t block, uint32_t kv_head, float* out) const {
        const Vectors from = keys(block, kv_head);
        for (uint32_t begin = 0; begin < kCacheBlock; begin += 16) {
            simd::f32x16 scale = simd::zero_f32();
            for (uint32_t i = 0; i < head_dim; ++i) {
                if (i % kCacheGroup == 0) scale = simd::load_f16(from.scales + i / kCacheGroup * kCacheBlock + begin);
                const size_t at = size_t{i} * kCacheBlock + begin;
                simd::store(out + at, simd::to_f32(simd::load_i8(from.codes + at)) * scale);
            }
        }
    }

    void widen_values(uint32_t block, uint32_t kv_head, float* out) const {
        const Vectors from = values(block, kv_head);
        for (uint32_t begin = 0; begin < v_head_dim; begin += kCacheGroup) {
            float scales[kCacheBlock];
            for (uint32_t p = 0; p < kCacheBlock; p += 16)
                simd::store(scales + p, simd::load_f16(from.scales + begin / kCacheGroup * kCacheBlock + p));
            const uint32_t end = begin + kCacheGroup < v_head_dim ? begin + kCacheGroup : v_head_dim;
            for (uint32_t p = 0; p < kCacheBlock; ++p) {
                for (uint32_t i = begin; i < end; i += 16) {
                    const size_t at = size_t{p} * v_head_dim + i;
                    const simd::f32x16 x = simd::to_f32(simd::load_i8(from.codes + at)) * simd::set1(scales[p]);
                    simd::store_partial(out + at, x, end - i < 16 ? end - i : 16);
                }
            }
        }
    }

    simd::f32x16 load_values(uint32_t block, uint32_t kv_head, uint32_t position, uint32_t begin, uint32_t) const {
        const Vectors from = values(block, kv_head);
        const float scale = formats::f16_to_f32(from.scales[begin / kCacheGroup * kCacheBlock + position]);
        return simd::to_f32(simd::load_i8(from.codes + size_t{position} * v_head_dim + begin)) * simd::set1(scale);
    }

    void append_key(int32_t slot, uint32_t kv_head, const float* key) const {
        const Vectors to = keys(block_of(slot), kv_head);
        const uint32_t p = position_of(slot);
        append(key, head_dim, to.codes + p, kCacheBlock, to.scales + p);
    }
    void append_value(int32_t slot, uint32_t kv_head, const float* value) const {
        const Vectors to = values(block_of(slot), kv_head);
        const uint32_t p = position_of(slot);
        append(value, v_head_dim, to.codes + size_t{p} * v_head_dim, 1, to.scales + p);
    }

  private:
    static Vectors vectors(int8_t* codes, uint32_t width) {
        return {codes, reinterpret_cast<f16*>(codes + size_t{kCacheBlock} * width)};
    }

    static void append(const float* x, uint32_t width, int8_t* codes, uint32_t stride, f16* scales) {
        for (uint32_t begin = 0; begin < width; begin += kCacheGroup) {
            const uint32_t n = width - begin < kCacheGroup ? width - begin : kCacheGroup;
            const QuantizedGroup group = quantize_group(x + begin, n);
            for (uint32_t i = 0; i < n; ++i) codes[size_t{begin + i} * stride] = group.codes[i];
            scales[begin / kCacheGroup * kCacheBlock] = group.scale;
        }
    }
};

}  // namespace ferrule::cpu::FERRULE_ISA
