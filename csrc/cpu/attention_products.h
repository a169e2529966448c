// The two products of attention, a group of queries with one block of the cache: scores = q K and out += weights V.
// They are blocked for registers; every sum runs over its index in order, whatever the group.
#pragma once
#include "cache_layer.h"

namespace ferrule::cpu::FERRULE_ISA {

using simd::f32x16;

inline constexpr uint32_t kLanes = 16;

// Register blocking: the accumulators take half of the registers.
inline constexpr uint32_t kAccumulators = simd::kRegisters / 2;
inline constexpr uint32_t kGroup = kAccumulators < 4 ? kAccumulators : 4;
constexpr uint32_t columns(uint32_t n_queries) {
    const uint32_t fit = kAccumulators / n_queries;
    return fit >= 4 ? 4 : fit >= 2 ? 2 : 1;
}

struct Range {
    uint32_t begin;
    uint32_t end;
};

// f<0>(), f<1>() ... f<n - 1>(): accumulators need constant indices early, or the compiler leaves them in memory.
template <uint32_t n, uint32_t i = 0, class F>
[[gnu::always_inline]] inline void unrolled(const F& f) {
    if constexpr (i < n) {
        f.template operator()<i>();
        unrolled<n, i + 1>(f);
    }
}

template <uint32_t n_queries, uint32_t n_vectors>
struct Sums {
    f32x16 v[n_queries][n_vectors];

    // f(sum, query, vector)
    template <class F>
    [[gnu::always_inline]] inline void for_each(const F& f) {
        unrolled<n_queries>([&]<uint32_t i>() { unrolled<n_vectors>([&]<uint32_t n>() { f(v[i][n], i, n); }); });
    }

    // v[i][n] += a[i * a_stride + j] * b[j * b_stride + 16 n] over j in k, in order.
    template <class B>
    [[gnu::always_inline]] inline void add_products(const float* a, size_t a_stride, const B* b, size_t b_stride,
                                                    Range k) {
        for (uint32_t j = k.begin; j < k.end; ++j) {
            f32x16 row[n_vectors];
            unrolled<n_vectors>([&]<uint32_t n>() { row[n] = load_f32(b + j * b_stride + n * kLanes); });
            unrolled<n_queries>([&]<uint32_t i>() {
                const f32x16 factor = simd::set1(a[i * a_stride + j]);
                unrolled<n_vectors>([&]<uint32_t n>() { v[i][n] = fma(factor, row[n], v[i][n]); });
            });
        }
    }
};

// scores[i][64] = q[i] . K
template <uint32_t n_queries, class B>
void score_group(const float* q, uint32_t head_dim, const B* keys, float* scores) {
    constexpr uint32_t n_vectors = columns(n_queries);
    for (uint32_t first = 0; first < kCacheBlock; first += n_vectors * kLanes) {
        Sums<n_queries, n_vectors> sums;
        sums.for_each([](f32x16& sum, uint32_t, uint32_t) { sum = simd::zero_f32(); });
        sums.add_products(q, head_dim, keys + first, kCacheBlock, {0, head_dim});
        sums.for_each([&](f32x16 sum, uint32_t i, uint32_t n) {
            simd::store(scores + i * kCacheBlock + first + n * kLanes, sum);
        });
    }
}

// out[i][first...] = out[i][first...] * rescale[i] + weights[i][k] V[k], n_vectors at a time; returns the next `first`.
template <uint32_t n_queries, uint32_t n_vectors, class B>
uint32_t add_value_columns(const float* weights, const float* rescale, const B* values, uint32_t v_head_dim, Range k,
                           float* out, uint32_t out_stride, uint32_t first) {
    for (; first + n_vectors * kLanes <= out_stride; first += n_vectors * kLanes) {
        Sums<n_queries, n_vectors> sums;
        sums.for_each([&](f32x16& sum, uint32_t i, uint32_t n) {
            sum = simd::load(out + i * out_stride + first + n * kLanes) * simd::load(rescale + i * kLanes);
        });
        sums.add_products(weights, kCacheBlock, values + first, v_head_dim, k);
        sums.for_each(
            [&](f32x16 sum, uint32_t i, uint32_t n) { simd::store(out + i * out_stride + first + n * kLanes, sum); });
    }
    return first;
}

// out: [n_queries][out_stride], out_stride being v_head_dim rounded up to vectors; V is read that far in its last row.
template <uint32_t n_queries, class B>
void add_values(const float* weights, const float* rescale, const B* values, uint32_t v_head_dim, Range k, float* out,
                uint32_t out_stride) {
    const uint32_t rest =
        add_value_columns<n_queries, columns(n_queries)>(weights, rescale, values, v_head_dim, k, out, out_stride, 0);
    add_value_columns<n_queries, 1>(weights, rescale, values, v_head_dim, k, out, out_stride, rest);
}

// f<n>() for the n in 1..kGroup that is n_queries.
template <uint32_t n = kGroup, class F>
[[gnu::always_inline]] inline void with_group_size(uint32_t n_queries, F f) {
    if (n_queries == n) {
        f.template operator()<n>();
    } else if constexpr (n > 1) {
        with_group_size<n - 1>(n_queries, f);
    }
}

}  // namespace ferrule::cpu::FERRULE_ISA
