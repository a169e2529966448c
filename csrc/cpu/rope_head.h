// Rotation of one head by the angles of its row in a rope_table: rope and qkv_prepare share it, so that both round
// alike.
#pragma once
#include <cstdint>

#include "../params/rope.h"
#include "simd/simd.h"

namespace ferrule::cpu::FERRULE_ISA {

// cosines, sines: [n_pairs]; x, out: [2 * n_pairs], may be the same memory.
inline void rotate_half(const float* x, const float* cosines, const float* sines, uint32_t n_pairs, float* out) {
    for (uint32_t i = 0; i < n_pairs; i += 16) {
        const uint32_t n = n_pairs - i < 16 ? n_pairs - i : 16;
        const simd::f32x16 c = simd::load_partial(cosines + i, n), s = simd::load_partial(sines + i, n);
        const simd::f32x16 first = simd::load_partial(x + i, n), second = simd::load_partial(x + n_pairs + i, n);
        simd::store_partial(out + i, first * c - second * s, n);
        simd::store_partial(out + n_pairs + i, second * c + first * s, n);
    }
}

inline void rotate_adjacent(const float* x, const float* cosines, const float* sines, uint32_t n_pairs, float* out) {
    for (uint32_t i = 0; i < n_pairs; ++i) {
        const float first = x[2 * i], second = x[2 * i + 1];
        out[2 * i] = first * cosines[i] - second * sines[i];
        out[2 * i + 1] = second * cosines[i] + first * sines[i];
    }
}

// table: a row of n_pairs cosines, then n_pairs sines; x, out: [head_dim], may be the same memory.
inline void rope_head(const float* x, const float* table, uint32_t head_dim, uint32_t n_pairs, uint32_t pairing,
                      float* out) {
    if (pairing == 0) {
        rotate_half(x, table, table + n_pairs, n_pairs, out);
    } else {
        rotate_adjacent(x, table, table + n_pairs, n_pairs, out);
    }
    if (out != x) {
        for (uint32_t i = 2 * n_pairs; i < head_dim; ++i) out[i] = x[i];
    }
}

}  // namespace ferrule::cpu::FERRULE_ISA
