// Functions near 0 and 1 that Metal lacks, each within a few units in the last place. They rely on the absence of fast
// mathematics.
#pragma once
#include <metal_stdlib>

namespace ferrule {

// log(1 + x) where x >= 0. What 1 + x loses is lost in numerator and denominator, where it cancels (Kahan; Higham,
// Accuracy and Stability of Numerical Algorithms, 1.14.1).
inline float log1p(float x) {
    const float y = 1.0f + x;
    return y == 1.0f ? x : x * (metal::precise::log(y) / (y - 1.0f));
}

// exp(x) - 1; the polynomial is a minimax fit, that of csrc/cpu/simd/math.h.
inline float expm1(float x) {
    if (metal::fabs(x) >= 0.34f) return metal::precise::exp(x) - 1.0f;
    float sum = 0.0013814467f;
    sum = metal::fma(sum, x, 0.008368781f);
    sum = metal::fma(sum, x, 0.041668393f);
    sum = metal::fma(sum, x, 0.1666652f);
    sum = metal::fma(sum, x, 0.49999994f);
    return metal::fma(sum, x * x, x);
}

// log(1 + exp(x)).
inline float softplus(float x) {
    return metal::max(x, 0.0f) + log1p(metal::precise::exp(-metal::fabs(x)));
}

}  // namespace ferrule
