// Hands a thread its arguments. Types come from the kernel's own type, so that indices are all the translator writes.
#pragma once
#include "vector.h"

namespace metal_host {

template <class F>
struct Function;
template <class... A>
struct Function<void (*)(A...)> {
    template <int I>
    using argument = __type_pack_element<I, A...>;
};

// A kernel's argument in memory: T* or T&.
template <class A>
struct Memory {
    static_assert(sizeof(A) == 0, "a [[buffer]] or [[threadgroup]] parameter must be a pointer or a reference");
};
template <class T>
struct Memory<T*> {
    static constexpr uint32_t min_bytes = 1;
    static constexpr bool writable = !__is_const(T);
    static T* get(const Binding& binding) { return static_cast<T*>(binding.data); }
};
template <class T>
struct Memory<T&> {
    static constexpr uint32_t min_bytes = sizeof(T);
    static constexpr bool writable = !__is_const(T);
    static T& get(const Binding& binding) { return *static_cast<T*>(binding.data); }
};

template <class A>
inline __remove_cv(A) position(const uint32_t* coordinates) {
    __remove_cv(A) result;
    if constexpr (metal::size_v<__remove_cv(A)> == 1) {
        result = static_cast<__remove_cv(A)>(coordinates[0]);
    } else {
        for (int i = 0; i < metal::size_v<__remove_cv(A)>; ++i) result[i] = coordinates[i];
    }
    return result;
}

}  // namespace metal_host
