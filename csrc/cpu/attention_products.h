// The two products of attention, a group of queries with one block of the cache: scores = q K and out += weights V.
// They are blocked for registers; every sum runs over its index in order, whatever the group.
//
// Factor is what queries and weights are made of, one step of a sum: a float32 value, multiplied with values of float32
// or float16, or a pair of bfloat16 values, multiplied with such pairs.
#pragma once
#include "rounded_cache.h"
#include "unrolled.h"

namespace ferrule::cpu::FERRULE_ISA {

using simd::f32x16;

inline constexpr uint32_t kLanes = 16;

// Register blocking: the accumulators take half of the registers.
inline constexpr uint32_t kAccumulators = simd::kRegisters / 2;
inline constexpr uint32_t kGroup = kAccumulators < 4 ? kAccumulators : 4;
constexpr uint32_t columns(uint32_t n_queries, uint32_t most) {
    const uint32_t fit = kAccumulators / n_queries;
    return fit >= most ? most : fit >= 4 ? 4 : fit >= 2 ? 2 : 1;
}

struct Range {
    uint32_t begin;
    uint32_t end;
};

inline f32x16 load_row(const float* p) {
    return simd::load(p);
}
inline f32x16 load_row(const f16* p) {
    return simd::load_f16(p);
}
inline simd::i32x16 load_row(const Pair* p) {
    return simd::load(p);
}
inline f32x16 multiply_add(f32x16 factor, f32x16 row, f32x16 sum) {
    return fma(factor, row, sum);
}
#if defined(__AVX512BF16__)
inline f32x16 multiply_add(simd::i32x16 factor, simd::i32x16 row, f32x16 sum) {
    return dot2(sum, factor, row);
}
#endif

template <uint32_t n_queries, uint32_t n_vectors>
struct Sums {
    f32x16 v[n_queries][n_vectors];

    // f(sum, query, vector)
    template <class F>
    [[gnu::always_inline]] inline void for_each(const F& f) {
        unrolled<n_queries>([&]<uint32_t i>() { unrolled<n_vectors>([&]<uint32_t n>() { f(v[i][n], i, n); }); });
    }

    // v[i][n] += a[i * a_stride + j] * b[j * b_stride + 16 n] over j in k, in order.
    template <class Factor, class B>
    [[gnu::always_inline]] inline void add_products(const Factor* a, size_t a_stride, const B* b, size_t b_stride,
                                                    Range k) {
        for (uint32_t j = k.begin; j < k.end; ++j) {
            add_step(a + j, a_stride, b + j * b_stride, [](auto row) { return row; });
        }
    }

    // The same for one j, whose b is of(row).
    template <class Factor, class B, class Of>
    [[gnu::always_inline]] inline void add_step(const Factor* a, size_t a_stride, const B* b, Of of) {
        decltype(load_row(b)) row[n_vectors];
        unrolled<n_vectors>([&]<uint32_t n>() { row[n] = of(load_row(b + n * kLanes)); });
        unrolled<n_queries>([&]<uint32_t i>() {
            const auto factor = simd::set1(a[i * a_stride]);
            unrolled<n_vectors>([&]<uint32_t n>() { v[i][n] = multiply_add(factor, row[n], v[i][n]); });
        });
    }

    // add_products over the positions in k, of pairs without the halves that are not in k: anything may stand there.
    template <class B>
    [[gnu::always_inline]] inline void add_positions(const float* a, size_t a_stride, const B* b, size_t b_stride,
                                                     Range k) {
        add_products(a, a_stride, b, b_stride, k);
    }
    [[gnu::always_inline]] inline void add_positions(const Pair* a, size_t a_stride, const Pair* b, size_t b_stride,
                                                     Range k) {
        const auto add_half = [&](uint32_t j, int32_t half) {
            add_step(a + j, a_stride, b + j * b_stride, [half](simd::i32x16 row) { return row & simd::set1(half); });
        };
        if (k.begin % 2 != 0) add_half(k.begin / 2, static_cast<int32_t>(0xffff0000));
        add_products(a, a_stride, b, b_stride, {(k.begin + 1) / 2, k.end / 2});
        if (k.end % 2 != 0) add_half(k.end / 2, 0xffff);
    }
};

// scores[i][64] = q[i] . K, of `steps` factors a query
template <uint32_t n_queries, class Factor, class B>
void score_group(const Factor* q, uint32_t steps, const B* keys, float* scores) {
    constexpr uint32_t n_vectors = columns(n_queries, 4);
    for (uint32_t first = 0; first < kCacheBlock; first += n_vectors * kLanes) {
        Sums<n_queries, n_vectors> sums;
        sums.for_each([](f32x16& sum, uint32_t, uint32_t) { sum = simd::zero_f32(); });
        sums.add_products(q, steps, keys + first, kCacheBlock, {0, steps});
        sums.for_each([&](f32x16 sum, uint32_t i, uint32_t n) {
            simd::store(scores + i * kCacheBlock + first + n * kLanes, sum);
        });
    }
}

// out[i][first...] = out[i][first...] * rescale[i] + weights[i][k] V[k], n_vectors at a time; returns the next `first`.
template <uint32_t n_queries, uint32_t n_vectors, class Factor, class B>
uint32_t add_value_columns(const Factor* weights, const float* rescale, const B* values, uint32_t v_stride, Range k,
                           float* out, uint32_t out_stride, uint32_t first) {
    for (; first + n_vectors * kLanes <= out_stride; first += n_vectors * kLanes) {
        Sums<n_queries, n_vectors> sums;
        sums.for_each([&](f32x16& sum, uint32_t i, uint32_t n) {
            sum = simd::load(out + i * out_stride + first + n * kLanes) * simd::load(rescale + i * kLanes);
        });
        sums.add_positions(weights, kCacheBlock, values + first, v_stride, k);
        sums.for_each(
            [&](f32x16 sum, uint32_t i, uint32_t n) { simd::store(out + i * out_stride + first + n * kLanes, sum); });
    }
    return first;
}

// weights: [n_queries][64], of pairs the first half of each row; out: [n_queries][out_stride], out_stride being the
// width of values rounded up to vectors; V is read that far in its last row.
template <uint32_t n_queries, class Factor, class B>
void add_values(const Factor* weights, const float* rescale, const B* values, uint32_t v_stride, Range k, float* out,
                uint32_t out_stride) {
    const auto add_from = [&]<uint32_t n_vectors>(uint32_t first) {
        return add_value_columns<n_queries, n_vectors>(weights, rescale, values, v_stride, k, out, out_stride, first);
    };
    uint32_t first = add_from.template operator()<columns(n_queries, 8)>(0);
    first = add_from.template operator()<columns(n_queries, 4)>(first);
    add_from.template operator()<1>(first);
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
