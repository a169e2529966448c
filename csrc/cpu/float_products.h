// Products of float weights and f32 activations in tiles of weight rows x activation rows, one vector accumulator per
// output, lanes along k: what matmul_float.cpp and expert_linear_float.cpp share.
#pragma once
#include "activation_rows.h"
#include "unrolled.h"

namespace ferrule::cpu::FERRULE_ISA {

struct F32 {
    using Value = float;
    static simd::f32x16 load16(const float* p) { return simd::load(p); }
    static simd::f32x16 load_some(const float* p, size_t n) { return simd::load_partial(p, n); }
};
struct F16 {
    using Value = uint16_t;
    static simd::f32x16 load16(const uint16_t* p) { return simd::load_f16(p); }
    static simd::f32x16 load_some(const uint16_t* p, size_t n) { return simd::load_f16_partial(p, n); }
};
struct BF16 {
    using Value = uint16_t;
    static simd::f32x16 load16(const uint16_t* p) { return simd::load_bf16(p); }
    static simd::f32x16 load_some(const uint16_t* p, size_t n) { return simd::load_bf16_partial(p, n); }
};

template <class Format>
struct FloatMatrix {
    const uint8_t* weight;  // [n, k], not aligned to the values, perhaps
    uint32_t k;
    uint32_t n;
};

// W weight rows from j times T activation rows from r; those beyond the last repeat it and are not written. Never
// inlined: among its callers' variables gcc leaves sums in memory.
template <class Format, int W, int T>
[[gnu::noinline]] void float_tile(const FloatMatrix<Format>& m, const ActivationRows& rows, uint32_t j, uint32_t r) {
    using namespace simd;
    using Value = typename Format::Value;
    const Value* w[W];
    const float* x[T];
    for (uint32_t i = 0; i < W; ++i) {
        w[i] = reinterpret_cast<const Value*>(m.weight + size_t{min_u32(j + i, m.n - 1)} * m.k * sizeof(Value));
    }
    for (uint32_t t = 0; t < T; ++t) x[t] = reinterpret_cast<const float*>(rows.at(min_u32(r + t, rows.count - 1)));

    // The next weight rows, or later ones, at least 4 KiB ahead.
    size_t ahead = size_t{W} * m.k;
    while (ahead < 4096 / sizeof(Value)) ahead *= 2;

    f32x16 sum[W][T];
    const auto each_sum = [&](const auto& f) __attribute__((always_inline)) {
        unrolled<W>([&]<uint32_t i>() { unrolled<T>([&]<uint32_t t>() { f.template operator()<i, t>(); }); });
    };
    each_sum([&]<uint32_t i, uint32_t t>() { sum[i][t] = zero_f32(); });
    const uint32_t whole = m.k / 16 * 16;
    for (uint32_t p = 0; p < whole; p += 16) {
        if (p % (64 / sizeof(Value)) == 0) {
            for (int i = 0; i < W; ++i) prefetch_l2(w[i] + p + ahead);
        }
        f32x16 weights[W];
        unrolled<W>([&]<uint32_t i>() { weights[i] = Format::load16(w[i] + p); });
        unrolled<T>([&]<uint32_t t>() {
            const f32x16 values = load(x[t] + p);
            unrolled<W>([&]<uint32_t i>() { sum[i][t] = fma(values, weights[i], sum[i][t]); });
        });
    }
    if (const uint32_t rest = m.k - whole; rest > 0) {
        each_sum([&]<uint32_t i, uint32_t t>() {
            sum[i][t] = fma(load_partial(x[t] + whole, rest), Format::load_some(w[i] + whole, rest), sum[i][t]);
        });
    }
    float products[W][T];
    each_sum([&]<uint32_t i, uint32_t t>() { products[i][t] = reduce_add(sum[i][t]); });
    for (uint32_t t = 0; t < min_u32(T, rows.count - r); ++t)
        for (uint32_t i = 0; i < min_u32(W, m.n - j); ++i) rows.finish(r + t, j + i, products[i][t]);
}

// Activation rows in tiles of T while at least `enough` of them are left; returns the first row not done.
template <class Format, int W, int T>
uint32_t float_tiles(const FloatMatrix<Format>& m, const ActivationRows& rows, uint32_t j_begin, uint32_t j_end,
                     uint32_t r, uint32_t enough) {
    for (; r < rows.count && rows.count - r >= enough; r += T)
        for (uint32_t j = j_begin; j < j_end; j += W) float_tile<Format, W, T>(m, rows, j, r);
    return r;
}

// All activation rows times weight rows [j_begin, j_end).
template <class Format>
void float_products(const FloatMatrix<Format>& m, const ActivationRows& rows, uint32_t j_begin, uint32_t j_end) {
    uint32_t r = 0;
    r = float_tiles<Format, simd::kFloatTileWeights, simd::kFloatTileRows>(m, rows, j_begin, j_end, r,
                                                                           simd::kFloatTileRows);
    r = float_tiles<Format, simd::kFloatTileWeights, 2>(m, rows, j_begin, j_end, r, 2);
    // One activation row waits for memory, which is fastest read row after row, as long as the activations stay in the
    // L1 cache; two at a time, for each sum waits for itself. Else activations are read once for several weight rows.
    constexpr uint32_t kCached = 4096;
    if (m.k <= kCached) {
        float_tiles<Format, 2, 1>(m, rows, j_begin, j_end, r, 1);
    } else {
        float_tiles<Format, 2 * simd::kFloatTileWeights, 1>(m, rows, j_begin, j_end, r, 1);
    }
}

}  // namespace ferrule::cpu::FERRULE_ISA
