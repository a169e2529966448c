// The activation functions of csrc/params/activation.h.
#pragma once
#include <metal_stdlib>

#include "../csrc/params/activation.h"

namespace ferrule {

// Within 2 units in the last place; the polynomials are minimax fits, those of csrc/cpu/simd/math.h.
inline float erf(float x) {
    const float magnitude = metal::min(metal::fabs(x), 4.0f), square = x * x;  // from 4 on erf rounds to 1
    if (magnitude < 0.92f) {
        float sum = 8.316775e-05f;
        sum = metal::fma(sum, square, -0.0008130013f);
        sum = metal::fma(sum, square, 0.005199907f);
        sum = metal::fma(sum, square, -0.02685894f);
        sum = metal::fma(sum, square, 0.112836875f);
        sum = metal::fma(sum, square, -0.3761263f);
        sum = metal::fma(sum, square, 0.12837917f);
        return metal::fma(sum, x, x);
    }
    float log_erfc = -2.1094966e-05f;
    log_erfc = metal::fma(log_erfc, magnitude, 0.00043446169f);
    log_erfc = metal::fma(log_erfc, magnitude, -0.0041710586f);
    log_erfc = metal::fma(log_erfc, magnitude, 0.025119416f);
    log_erfc = metal::fma(log_erfc, magnitude, -0.10828008f);
    log_erfc = metal::fma(log_erfc, magnitude, -0.6333469f);
    log_erfc = metal::fma(log_erfc, magnitude, -1.1295149f);
    log_erfc = metal::fma(log_erfc, magnitude, 0.00017468320f);
    const float result = 1.0f - metal::precise::exp(log_erfc);
    return x < 0.0f ? -result : result;
}

inline float activate(Activation activation, float x) {
    switch (activation) {
        case Activation::silu:
            return x / (1.0f + metal::precise::exp(-x));
        case Activation::gelu_tanh: {
            // (1 + tanh(u)) / 2 = 1 / (1 + exp(-2 u)), which does not cancel where u is negative.
            const float u = 0.7978845608f * (x + 0.044715f * x * x * x);
            return x / (1.0f + metal::precise::exp(-2.0f * u));
        }
        case Activation::gelu_erf:
            return 0.5f * x * (1.0f + erf(x * M_SQRT1_2_F));
        case Activation::relu:
            return metal::max(x, 0.0f);
        case Activation::relu2:
            return metal::max(x, 0.0f) * metal::max(x, 0.0f);
        case Activation::sigmoid:
            return 1.0f / (1.0f + metal::precise::exp(-x));
        case Activation::identity:
            return x;
    }
    return x;
}

}  // namespace ferrule
