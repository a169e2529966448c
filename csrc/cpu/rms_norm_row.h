// Root mean square norm of one run of values: rms_norm and qkv_prepare share it, so that both round alike.
// Squares are summed in 16 lanes (lane = i % 16), then the lanes in float64: the relative error of the mean stays
// near width / 16 * 2^-24 at worst and is about 1e-7 in practice.
#pragma once
#include <math.h>

#include <cstdint>

#include "simd/simd.h"

namespace ferrule::cpu::FERRULE_ISA {

inline float inverse_rms(const float* x, uint32_t width, float eps) {
    simd::f32x16 squares = simd::zero_f32();
    const auto add = [&squares](simd::f32x16 v) { squares += v * v; };
    uint32_t i = 0;
    for (; i + 16 <= width; i += 16) add(simd::load(x + i));
    if (i < width) add(simd::load_partial(x + i, width - i));
    float lanes[16];
    simd::store(lanes, squares);
    double sum = 0;
    for (float lane : lanes) sum += lane;
    return static_cast<float>(1 / ::sqrt(sum / width + eps));
}

// x, out: [width], may be the same memory; weight: [width] or null.
inline void rms_norm_row(const float* x, const float* weight, uint32_t width, float eps, float weight_offset,
                         float* out) {
    const float factor = inverse_rms(x, width, eps);
    if (weight == nullptr) {
        for (uint32_t i = 0; i < width; ++i) out[i] = x[i] * factor;
    } else {
        for (uint32_t i = 0; i < width; ++i) out[i] = x[i] * factor * (weight_offset + weight[i]);
    }
}

}  // namespace ferrule::cpu::FERRULE_ISA
