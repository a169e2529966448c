// Keywords, address spaces and scalar types of the Metal Shading Language.
#pragma once

#ifdef METAL_HOST_STRICT
typedef unsigned char uint8_t;
typedef signed char int8_t;
typedef unsigned short uint16_t;
typedef short int16_t;
typedef unsigned int uint32_t;
typedef int int32_t;
typedef unsigned long uint64_t;
typedef long int64_t;
typedef unsigned long size_t;
typedef long ptrdiff_t;
#else
#include "../../runtime/kernel_abi.h"
#endif

#define kernel
#ifdef METAL_HOST_STRICT
#define device __global
#define constant __constant
#define threadgroup __local
#define thread __private
#else
#define device
#define constant const
#define threadgroup
#define thread
#endif

#define half _Float16
#define bfloat __bf16
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;

#define INFINITY (__builtin_inff())
#define NAN (__builtin_nanf(""))
#define MAXFLOAT 3.402823466e+38f
#define M_PI_F 3.14159265358979323846f
#define M_SQRT1_2_F 0.70710678118654752440f

namespace metal {

template <bool Condition, class T = void>
struct enable_if {};
template <class T>
struct enable_if<true, T> {
    typedef T type;
};
template <bool Condition, class T = void>
using enable_if_t = typename enable_if<Condition, T>::type;
template <class A, class B>
constexpr bool is_same_v = __is_same(A, B);
template <bool Condition, class A, class B>
struct conditional {
    typedef A type;
};
template <class A, class B>
struct conditional<false, A, B> {
    typedef B type;
};
template <bool Condition, class A, class B>
using conditional_t = typename conditional<Condition, A, B>::type;

template <class To, class From>
inline To as_type(From value) {
    static_assert(sizeof(To) == sizeof(From), "as_type between types of different sizes");
    return __builtin_bit_cast(To, value);
}

#ifdef METAL_HOST_STRICT
int function_constant(uint);
bool function_constant_defined(uint);

struct ThreadgroupVariable {
    template <class T>
    operator threadgroup T&() const;
};
#define METAL_HOST_THREADGROUP_VARIABLE \
    ::metal::ThreadgroupVariable {}
#else
struct ConstantValue {
    double value;
    template <class T>
    operator T() const {
        return static_cast<T>(value);
    }
};
inline ConstantValue function_constant(uint index) {
    return {::metal_host::function_constant(index)};
}
inline bool function_constant_defined(uint index) {
    return ::metal_host::function_constant_defined(index);
}

// Names where a barrier, simdgroup operation or threadgroup variable stands: a default argument is evaluated at the
// call.
#define METAL_HOST_SITE const ::metal_host::Site& site = {__builtin_FILE(), __builtin_LINE(), __builtin_COLUMN()}

// A threadgroup variable of a kernel: every thread of the threadgroup gets the same memory. `Id` tells variables apart.
template <int Id>
struct ThreadgroupVariable {
    static constexpr char key = 0;
    ::metal_host::Site site;
    template <class T>
    operator T&() const {
        return *static_cast<T*>(::metal_host::threadgroup_variable(&key, sizeof(T), site));
    }
};
#define METAL_HOST_THREADGROUP_VARIABLE \
    ::metal::ThreadgroupVariable<__COUNTER__> { { __builtin_FILE(), __builtin_LINE(), 1 } }
#endif

}  // namespace metal
