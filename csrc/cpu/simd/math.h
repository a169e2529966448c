// Elementary functions over f32x16. Measured over all floats: exp is within 1 ulp of the exact value, tanh and erf
// within 2, sigmoid within 2.5. All are exact at +-infinity and pass NaN on. The polynomials are minimax fits.
#pragma once
#include "simd.h"

namespace ferrule::cpu::FERRULE_ISA::simd {

// c[0] + c[1] x + c[2] x^2 + ...
template <int n>
inline f32x16 polynomial(const float (&c)[n], f32x16 x) {
    f32x16 sum = set1(c[n - 1]);
    for (int i = n - 2; i >= 0; --i) sum = fma(sum, x, set1(c[i]));
    return sum;
}

// |magnitude| with the sign of `sign`; magnitude must not be negative.
inline f32x16 with_sign(f32x16 magnitude, f32x16 sign) {
    return as_f32(as_i32(magnitude) | (as_i32(sign) & set1(INT32_MIN)));
}

// exp(x) - 1 where |x| <= ln 2 / 2.
inline f32x16 small_expm1(f32x16 x) {
    constexpr float c[] = {0.49999994f, 0.1666652f, 0.041668393f, 0.008368781f, 0.0013814467f};
    return fma(polynomial(c, x), x * x, x);
}

// Results below the smallest normal number are 0.
inline f32x16 exp(f32x16 x) {
    // x = n ln 2 + r; the high part of ln 2 has so few bits that its product with n is exact.
    const i32x16 n = round_i32(x * set1(1.44269504f));
    const f32x16 n_f32 = to_f32(n);
    const f32x16 r = fma(n_f32, set1(2.12194440e-4f), fma(n_f32, set1(-0.693359375f), x));
    const f32x16 exp_r = small_expm1(r) + set1(1.0f);
    // Times 2^n, by its exponent. Between the bounds that cannot leave the normal numbers: exp_r >= 1 where n = -126,
    // and exp_r < 1 where n = 128.
    const f32x16 result = as_f32(as_i32(exp_r) + (n << 23));
    const f32x16 not_small = select(less(x, set1(-87.336540f)), zero_f32(), result);
    return select(less(set1(88.722835f), x), set1(__builtin_inff()), not_small);
}

// exp(x) - 1, within 3 ulp.
inline f32x16 expm1(f32x16 x) {
    return select(less(abs(x), set1(0.34f)), small_expm1(x), exp(x) - set1(1.0f));
}

inline f32x16 sigmoid(f32x16 x) {
    return set1(1.0f) / (set1(1.0f) + exp(zero_f32() - x));
}

// log(1 + exp(x)), within 3 ulp.
inline f32x16 softplus(f32x16 x) {
    // max(x, 0) + log(1 + u) with u = exp(-|x|) <= 1, where log(1 + u) = 2 atanh(z), z = u / (2 + u) <= 1/3.
    const f32x16 u = exp(zero_f32() - abs(x)), z = u / (set1(2.0f) + u), square = z * z;
    constexpr float c[] = {0.33333333f, 0.2f, 0.14285715f, 0.11111111f, 0.09090909f, 0.07692308f, 0.06666667f};
    const f32x16 atanh = fma(polynomial(c, square) * square, z, z);
    return max(x, zero_f32()) + (atanh + atanh);
}

inline f32x16 tanh(f32x16 x) {
    const f32x16 magnitude = abs(x), square = x * x;
    constexpr float c[] = {-0.3333328f, 0.13331442f, -0.053739715f, 0.020639088f, -0.005704987f};
    const f32x16 small = fma(polynomial(c, square) * square, x, x);
    const f32x16 large = set1(1.0f) - set1(2.0f) / (exp(magnitude + magnitude) + set1(1.0f));
    return select(less(magnitude, set1(0.625f)), small, with_sign(large, x));
}

inline f32x16 erf(f32x16 x) {
    const f32x16 magnitude = abs(x);
    constexpr float c[] = {0.12837917f,  -0.3761263f,    0.112836875f, -0.02685894f,
                           0.005199907f, -0.0008130013f, 8.316775e-05f};
    const f32x16 small = fma(polynomial(c, x * x), x, x);
    // 1 - exp(log erfc |x|); from 4 on erf rounds to 1.
    constexpr float log_erfc[] = {0.00017468320f, -1.1295149f,    -0.6333469f,    -0.10828008f,
                                  0.025119416f,   -0.0041710586f, 0.00043446169f, -2.1094966e-05f};
    const f32x16 large = set1(1.0f) - exp(polynomial(log_erfc, min(set1(4.0f), magnitude)));
    return select(less(magnitude, set1(0.92f)), small, with_sign(large, x));
}

}  // namespace ferrule::cpu::FERRULE_ISA::simd
