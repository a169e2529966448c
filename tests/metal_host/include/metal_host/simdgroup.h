// Barriers and what the lanes of a simdgroup do together.
#pragma once
#include "math.h"

namespace metal {

enum class mem_flags : uint { mem_none = 0, mem_device = 1, mem_threadgroup = 2 };
constexpr mem_flags operator|(mem_flags a, mem_flags b) {
    return static_cast<mem_flags>(static_cast<uint>(a) | static_cast<uint>(b));
}

#ifdef METAL_HOST_STRICT

void threadgroup_barrier(mem_flags);
void simdgroup_barrier(mem_flags);
#define METAL_HOST_REDUCTION(name) \
    template <class T>             \
    if_number_t<T> name(T value);
#define METAL_HOST_SHUFFLE(name) \
    template <class T>           \
    if_number_t<T> name(T value, ushort lane);
METAL_HOST_REDUCTION(simd_sum)
METAL_HOST_REDUCTION(simd_max)
METAL_HOST_REDUCTION(simd_min)
METAL_HOST_REDUCTION(simd_prefix_exclusive_sum)
METAL_HOST_REDUCTION(simd_prefix_inclusive_sum)
METAL_HOST_REDUCTION(simd_broadcast_first)
METAL_HOST_SHUFFLE(simd_shuffle)
METAL_HOST_SHUFFLE(simd_broadcast)
METAL_HOST_SHUFFLE(simd_shuffle_xor)
METAL_HOST_SHUFFLE(simd_shuffle_down)
METAL_HOST_SHUFFLE(simd_shuffle_up)
bool simd_any(bool);
bool simd_all(bool);

#else

inline void threadgroup_barrier(mem_flags flags, METAL_HOST_SITE) {
    ::metal_host::threadgroup_barrier(static_cast<uint>(flags), site);
}
inline void simdgroup_barrier(mem_flags flags, METAL_HOST_SITE) {
    ::metal_host::simdgroup_barrier(static_cast<uint>(flags), site);
}

template <class T>
inline T deposit(const void* slots, uint lane) {
    static_assert(sizeof(T) <= ::metal_host::kSlotBytes);
    T value;
    __builtin_memcpy(&value, static_cast<const char*>(slots) + lane % 32 * ::metal_host::kSlotBytes, sizeof(T));
    return value;
}

// In butterfly order, as a GPU's reduction network adds.
template <class T, class Operation>
void reduce(void* slots, const bool* present) {
    T values[32];
    bool on[32];
    for (uint lane = 0; lane < 32; ++lane) {
        on[lane] = present[lane];
        if (on[lane]) values[lane] = deposit<T>(slots, lane);
    }
    for (uint distance = 16; distance > 0; distance /= 2) {
        for (uint lane = 0; lane < distance; ++lane) {
            const uint other = lane + distance;
            if (!on[other]) continue;
            values[lane] = on[lane] ? Operation::apply(values[lane], values[other]) : values[other];
            on[lane] = true;
        }
    }
    __builtin_memcpy(slots, &values[0], sizeof(T));
}

template <class T>
struct Sum {
    static T apply(T a, T b) { return a + b; }
};
template <class T>
struct Maximum {
    static T apply(T a, T b) { return max(a, b); }
};
template <class T>
struct Minimum {
    static T apply(T a, T b) { return min(a, b); }
};

template <class T>
inline if_number_t<T> simd_sum(T value, METAL_HOST_SITE) {
    return deposit<T>(::metal_host::exchange(&value, sizeof(T), &reduce<T, Sum<T> >, site), 0);
}
template <class T>
inline if_number_t<T> simd_max(T value, METAL_HOST_SITE) {
    return deposit<T>(::metal_host::exchange(&value, sizeof(T), &reduce<T, Maximum<T> >, site), 0);
}
template <class T>
inline if_number_t<T> simd_min(T value, METAL_HOST_SITE) {
    return deposit<T>(::metal_host::exchange(&value, sizeof(T), &reduce<T, Minimum<T> >, site), 0);
}

// The value of lane `source(lane)` of the simdgroup.
template <class T, class Source>
inline T shuffle(T value, Source source, const ::metal_host::Site& site) {
    const void* slots = ::metal_host::exchange(&value, sizeof(T), nullptr, site);
    return deposit<T>(slots, source(::metal_host::lane_index()));
}
template <class T>
inline if_number_t<T> simd_shuffle(T value, ushort lane, METAL_HOST_SITE) {
    return shuffle(value, [=](uint) { return uint{lane}; }, site);
}
template <class T>
inline if_number_t<T> simd_broadcast(T value, ushort lane, METAL_HOST_SITE) {
    return shuffle(value, [=](uint) { return uint{lane}; }, site);
}
template <class T>
inline if_number_t<T> simd_broadcast_first(T value, METAL_HOST_SITE) {
    return shuffle(value, [](uint) { return ctz(::metal_host::present_lanes()); }, site);
}
template <class T>
inline if_number_t<T> simd_shuffle_xor(T value, ushort mask, METAL_HOST_SITE) {
    return shuffle(value, [=](uint lane) { return lane ^ mask; }, site);
}
template <class T>
inline if_number_t<T> simd_shuffle_down(T value, ushort delta, METAL_HOST_SITE) {
    return shuffle(value, [=](uint lane) { return lane + delta < 32 ? lane + delta : lane; }, site);
}
template <class T>
inline if_number_t<T> simd_shuffle_up(T value, ushort delta, METAL_HOST_SITE) {
    return shuffle(value, [=](uint lane) { return lane >= delta ? lane - delta : lane; }, site);
}

template <class T>
inline T prefix_sum(T value, uint inclusive, const ::metal_host::Site& site) {
    const void* slots = ::metal_host::exchange(&value, sizeof(T), nullptr, site);
    T sum = 0;
    for (uint lane = 0; lane < ::metal_host::lane_index() + inclusive; ++lane) sum += deposit<T>(slots, lane);
    return sum;
}
template <class T>
inline if_number_t<T> simd_prefix_exclusive_sum(T value, METAL_HOST_SITE) {
    return prefix_sum(value, 0, site);
}
template <class T>
inline if_number_t<T> simd_prefix_inclusive_sum(T value, METAL_HOST_SITE) {
    return prefix_sum(value, 1, site);
}

inline bool simd_any(bool value, METAL_HOST_SITE) {
    return simd_max(uint{value}, site) != 0;
}
inline bool simd_all(bool value, METAL_HOST_SITE) {
    return simd_min(uint{value}, site) != 0;
}

#endif

}  // namespace metal
