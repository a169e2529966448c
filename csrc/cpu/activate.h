// The activation functions over vectors (formulas in activation.h of params), shared by activation and
// gated_activation.
#pragma once
#include "../params/activation.h"
#include "simd/math.h"

namespace ferrule::cpu::FERRULE_ISA {

// A block of values that costs about as much as handing out a work item: few enough that threads share one row.
inline constexpr size_t kActivationBlock = 512;

template <Activation activation>
inline simd::f32x16 activate(simd::f32x16 x) {
    using simd::set1;
    if constexpr (activation == Activation::silu) {
        return x / (set1(1.0f) + exp(simd::zero_f32() - x));
    } else if constexpr (activation == Activation::gelu_tanh) {
        // 0.5 (1 + tanh u) = 1 / (1 + exp(-2u)), which loses nothing where tanh u is near -1.
        const simd::f32x16 u = fma(set1(0.044715f) * x * x, x, x) * set1(0.7978845608f);
        return x / (set1(1.0f) + exp(u * set1(-2.0f)));
    } else if constexpr (activation == Activation::gelu_erf) {
        return set1(0.5f) * x * (set1(1.0f) + erf(x * set1(0.7071067812f)));
    } else if constexpr (activation == Activation::relu) {
        return max(simd::zero_f32(), x);
    } else if constexpr (activation == Activation::sigmoid) {
        return set1(1.0f) / (set1(1.0f) + exp(simd::zero_f32() - x));
    } else if constexpr (activation == Activation::identity) {
        return x;
    } else {
        const simd::f32x16 positive = max(simd::zero_f32(), x);
        return positive * positive;
    }
}

// f<activation>() for the activation of that number.
template <class F>
inline void with_activation(uint32_t activation, F f) {
    switch (static_cast<Activation>(activation)) {
        case Activation::silu:
            return f.template operator()<Activation::silu>();
        case Activation::gelu_tanh:
            return f.template operator()<Activation::gelu_tanh>();
        case Activation::gelu_erf:
            return f.template operator()<Activation::gelu_erf>();
        case Activation::relu:
            return f.template operator()<Activation::relu>();
        case Activation::relu2:
            return f.template operator()<Activation::relu2>();
        case Activation::sigmoid:
            return f.template operator()<Activation::sigmoid>();
        case Activation::identity:
            return f.template operator()<Activation::identity>();
    }
}

// out[i] = act(x[i]) or, where up is given, act(x[i]) * up[i], for i in [begin, end).
template <Activation activation, bool gated>
inline void activate_values(const float* x, const float* up, float* out, size_t begin, size_t end) {
    for (size_t i = begin; i < end; i += 16) {
        const size_t n = end - i < 16 ? end - i : 16;
        simd::f32x16 y = activate<activation>(simd::load_partial(x + i, n));
        if constexpr (gated) y = y * simd::load_partial(up + i, n);
        simd::store_partial(out + i, y, n);
    }
}

}  // namespace ferrule::cpu::FERRULE_ISA
