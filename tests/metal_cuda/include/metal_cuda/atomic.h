// Relaxed atomics, the only ones that Metal has.
#pragma once

namespace metal {

enum memory_order { memory_order_relaxed };

template <class T>
struct atomic {
    T value;
};

template <class T, class U>
inline T atomic_fetch_add_explicit(volatile atomic<T>* object, U value, memory_order) {
    return __atomic_fetch_add(&object->value, static_cast<T>(value), __ATOMIC_RELAXED);
}
template <class T>
inline T atomic_load_explicit(const volatile atomic<T>* object, memory_order) {
    return __atomic_load_n(&object->value, __ATOMIC_RELAXED);
}
template <class T, class U>
inline void atomic_store_explicit(volatile atomic<T>* object, U value, memory_order) {
    __atomic_store_n(&object->value, static_cast<T>(value), __ATOMIC_RELAXED);
}

}  // namespace metal

#define atomic_uint metal::atomic<uint>
