// Vectors: clang's extended vectors, which have swizzles and operators. What they lack is Metal's way to construct and
// convert them: the translator turns float4(...) into make<float4>(...). Comparisons of vectors give integer vectors
// here and bool vectors on Metal; tools/strict.py refuses them.
#pragma once
#include "language.h"

namespace metal {

template <class T, int N>
using vec = T __attribute__((ext_vector_type(N)));

}  // namespace metal

#define METAL_HOST_VECTORS(T, name)     \
    typedef ::metal::vec<T, 2> name##2; \
    typedef ::metal::vec<T, 3> name##3; \
    typedef ::metal::vec<T, 4> name##4
METAL_HOST_VECTORS(float, float);
METAL_HOST_VECTORS(half, half);
METAL_HOST_VECTORS(bfloat, bfloat);
METAL_HOST_VECTORS(signed char, char);
METAL_HOST_VECTORS(uchar, uchar);
METAL_HOST_VECTORS(short, short);
METAL_HOST_VECTORS(ushort, ushort);
METAL_HOST_VECTORS(int, int);
METAL_HOST_VECTORS(uint, uint);
METAL_HOST_VECTORS(long, long);
METAL_HOST_VECTORS(ulong, ulong);

namespace metal {

// Element type and size of a scalar or vector.
template <class T>
struct Shape {
    typedef T element;
    static constexpr int size = 1;
};
template <class T, int N>
struct Shape<T __attribute__((ext_vector_type(N)))> {
    typedef T element;
    static constexpr int size = N;
};
template <class T>
using element_t = typename Shape<T>::element;
template <class T>
constexpr int size_v = Shape<T>::size;

template <class T>
constexpr bool is_float_v =
    __is_same(element_t<T>, float) || __is_same(element_t<T>, half) || __is_same(element_t<T>, bfloat);
template <class T>
constexpr bool is_integer_v = __is_integral(element_t<T>) && !__is_same(element_t<T>, bool);

// Clang refuses half <-> bfloat.
template <class To, class From>
constexpr To convert(From value) {
    if constexpr (is_float_v<To> && is_float_v<From>) {
        return static_cast<To>(static_cast<float>(value));
    } else {
        return static_cast<To>(value);
    }
}

template <class V, int I>
inline void fill(thread V&) {
    static_assert(I == size_v<V>, "wrong number of vector components");
}
template <class V, int I, class First, class... Rest>
inline void fill(thread V& result, First first, Rest... rest) {
    if constexpr (size_v<First> == 1) {
        result[I] = convert<element_t<V>>(first);
    } else {
        for (int i = 0; i < size_v<First>; ++i) result[I + i] = convert<element_t<V>>(first[i]);
    }
    fill<V, I + size_v<First>>(result, rest...);
}

// The vector V of the given scalars and vectors in order, of one scalar throughout, or converted from another vector.
template <class V, class... Parts>
inline V make(Parts... parts) {
    V result;
    if constexpr (sizeof...(Parts) == 1 && (size_v<Parts> + ...) == 1) {
        for (int i = 0; i < size_v<V>; ++i) result[i] = convert<element_t<V>>((parts + ...));
    } else {
        fill<V, 0>(result, parts...);
    }
    return result;
}

}  // namespace metal
