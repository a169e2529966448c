// The activation functions of csrc/params/activation.h.
#pragma once
#include <metal_stdlib>

#include "../csrc/params/activation.h"

namespace ferrule {

// Abramowitz & Stegun, Handbook of Mathematical Functions, 7.1.26: absolute error below 1.5e-7.
inline float erf(float x) {
    const float magnitude = metal::fabs(x), t = 1.0f / (1.0f + 0.3275911f * magnitude);
    const float polynomial =
        t * (0.254829592f + t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
    const float result = 1.0f - polynomial * metal::precise::exp(-magnitude * magnitude);
    return x < 0.0f ? -result : result;
}

inline float activate(Activation activation, float x) {
    switch (activation) {
        case Activation::silu:
            return x / (1.0f + metal::precise::exp(-x));
        case Activation::gelu_tanh:
            // precise: the fast tanh overflows where its argument is large.
            return 0.5f * x * (1.0f + metal::precise::tanh(0.7978845608f * (x + 0.044715f * x * x * x)));
        case Activation::gelu_erf:
            return 0.5f * x * (1.0f + erf(x * M_SQRT1_2_F));
        case Activation::relu:
            return metal::max(x, 0.0f);
        case Activation::relu2:
            return metal::max(x, 0.0f) * metal::max(x, 0.0f);
    }
    return x;
}

}  // namespace ferrule
