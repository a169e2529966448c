#pragma once
#include "simd/simd.h"

namespace ferrule::cpu::FERRULE_ISA {

// out[0, n) = x limited to [-limit, limit]; NaN stays. They may be the same memory.
inline void limit_values(const float* x, size_t n, float limit, float* out) {
    const simd::f32x16 high = simd::set1(limit), low = simd::set1(-limit);
    for (size_t i = 0; i < n; i += 16) {
        const size_t count = n - i < 16 ? n - i : 16;
        simd::store_partial(out + i, max(low, min(high, simd::load_partial(x + i, count))), count);
    }
}

}  // namespace ferrule::cpu::FERRULE_ISA
