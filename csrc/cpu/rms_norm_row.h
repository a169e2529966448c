// Root mean square norm of one run of values: rms_norm and qkv_prepare share it, so that both round alike.
// Squares are summed in 16 lanes (lane = i % 16), then the lanes in float64: the relative error of the mean stays
// near width / 16 * 2^-24 at worst and is about 1e-7 in practice.
#pragma once
#include <math.h>

#include <cstdint>

namespace ferrule::cpu::FERRULE_ISA {

inline float inverse_rms(const float* x, uint32_t width, float eps) {
    constexpr uint32_t kLanes = 16;
    float lanes[kLanes] = {};
    uint32_t i = 0;
    for (; i + kLanes <= width; i += kLanes) {
        for (uint32_t lane = 0; lane < kLanes; ++lane) lanes[lane] += x[i + lane] * x[i + lane];
    }
    for (uint32_t lane = 0; i < width; ++i, ++lane) lanes[lane] += x[i] * x[i];
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
