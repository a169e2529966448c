// Relaxed atomics, the only ones that Metal has.
#pragma once
#include "vector.h"

namespace metal {

enum memory_order { memory_order_relaxed };

template <class T>
struct atomic {
    T value;
};

#ifdef METAL_HOST_STRICT

#define METAL_HOST_ATOMICS(space)                                            \
    template <class T, class U>                                              \
    T atomic_fetch_add_explicit(volatile space atomic<T>*, U, memory_order); \
    template <class T, class U>                                              \
    T atomic_fetch_max_explicit(volatile space atomic<T>*, U, memory_order); \
    template <class T>                                                       \
    T atomic_load_explicit(const volatile space atomic<T>*, memory_order);   \
    template <class T, class U>                                              \
    void atomic_store_explicit(volatile space atomic<T>*, U, memory_order);
METAL_HOST_ATOMICS(device)
METAL_HOST_ATOMICS(threadgroup)

#else

// Fibers only switch at barriers and simdgroup operations, so that plain accesses are atomic.
template <class T, class Update>
__attribute__((no_sanitize("thread"))) inline T update_atomic(volatile atomic<T>* object, Update update) {
    ::metal_host::note_atomic(object, sizeof(T));
    const T before = object->value;
    object->value = update(before);
    return before;
}
template <class T, class U>
inline T atomic_fetch_add_explicit(volatile atomic<T>* object, U value, memory_order) {
    return update_atomic(object, [=](T before) { return static_cast<T>(before + static_cast<T>(value)); });
}
template <class T, class U>
inline T atomic_fetch_max_explicit(volatile atomic<T>* object, U value, memory_order) {
    return update_atomic(object,
                         [=](T before) { return before < static_cast<T>(value) ? static_cast<T>(value) : before; });
}
template <class T>
inline T atomic_load_explicit(const volatile atomic<T>* object, memory_order) {
    return update_atomic(const_cast<volatile atomic<T>*>(object), [](T before) { return before; });
}
template <class T, class U>
inline void atomic_store_explicit(volatile atomic<T>* object, U value, memory_order) {
    update_atomic(object, [=](T) { return static_cast<T>(value); });
}

#endif

}  // namespace metal

#define atomic_int metal::atomic<int>
#define atomic_uint metal::atomic<uint>
#define atomic_float metal::atomic<float>
