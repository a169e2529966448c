// Scalar and vector functions. Arguments must have one type, as Metal's overloads would otherwise be ambiguous.
#pragma once
#include "vector.h"

namespace metal {

template <class T>
using if_float_t = enable_if_t<is_float_v<T>, T>;
template <class T>
using if_integer_t = enable_if_t<is_integer_v<T>, T>;
template <class T>
using if_number_t = enable_if_t<is_float_v<T> || is_integer_v<T>, T>;

template <class T>
inline T reciprocal_square_root(T x) {
    return static_cast<T>(1) / __builtin_elementwise_sqrt(x);
}

#define METAL_HOST_UNARY(name, builtin)    \
    template <class T>                     \
    inline if_float_t<T> name(T x) {       \
        return static_cast<T>(builtin(x)); \
    }
#define METAL_HOST_UNARY_FUNCTIONS                     \
    METAL_HOST_UNARY(exp, __builtin_elementwise_exp)   \
    METAL_HOST_UNARY(exp2, __builtin_elementwise_exp2) \
    METAL_HOST_UNARY(log, __builtin_elementwise_log)   \
    METAL_HOST_UNARY(log2, __builtin_elementwise_log2) \
    METAL_HOST_UNARY(sin, __builtin_elementwise_sin)   \
    METAL_HOST_UNARY(cos, __builtin_elementwise_cos)   \
    METAL_HOST_UNARY(tanh, __builtin_elementwise_tanh) \
    METAL_HOST_UNARY(sqrt, __builtin_elementwise_sqrt) \
    METAL_HOST_UNARY(rsqrt, reciprocal_square_root)
METAL_HOST_UNARY_FUNCTIONS
namespace precise {
METAL_HOST_UNARY_FUNCTIONS
}
namespace fast {
METAL_HOST_UNARY_FUNCTIONS
}
METAL_HOST_UNARY(fabs, __builtin_elementwise_abs)
METAL_HOST_UNARY(floor, __builtin_elementwise_floor)
METAL_HOST_UNARY(ceil, __builtin_elementwise_ceil)
METAL_HOST_UNARY(round, __builtin_elementwise_round)
METAL_HOST_UNARY(rint, __builtin_elementwise_rint)
METAL_HOST_UNARY(trunc, __builtin_elementwise_trunc)

template <class T>
inline if_float_t<T> fma(T a, T b, T c) {
    return __builtin_elementwise_fma(a, b, c);
}
template <class T>
inline if_float_t<T> pow(T x, T y) {
    return __builtin_elementwise_pow(x, y);
}
template <class T>
inline if_number_t<T> abs(T x) {
    return __builtin_elementwise_abs(x);
}
template <class T>
inline if_number_t<T> min(T a, T b) {
    return __builtin_elementwise_min(a, b);
}
template <class T>
inline if_number_t<T> max(T a, T b) {
    return __builtin_elementwise_max(a, b);
}
template <class T>
inline if_number_t<T> clamp(T x, T low, T high) {
    return min(max(x, low), high);
}
template <class T>
inline enable_if_t<size_v<T> == 1, T> select(T a, T b, bool condition) {
    return condition ? b : a;
}
template <class V>
inline enable_if_t<is_float_v<V> && (size_v<V> > 1), element_t<V>> dot(V a, V b) {
    element_t<V> sum = a[0] * b[0];
    for (int i = 1; i < size_v<V>; ++i) sum += a[i] * b[i];
    return sum;
}

inline bool isnan(float x) {
    return __builtin_isnan(x);
}
inline bool isinf(float x) {
    return __builtin_isinf(x);
}
inline bool isfinite(float x) {
    return __builtin_isfinite(x);
}
inline uint popcount(uint x) {
    return __builtin_popcount(x);
}
inline uint clz(uint x) {
    return x == 0 ? 32 : __builtin_clz(x);
}
inline uint ctz(uint x) {
    return x == 0 ? 32 : __builtin_ctz(x);
}
inline uint extract_bits(uint x, uint offset, uint bits) {
    return (x >> offset) & ((1u << bits) - 1);
}

}  // namespace metal
