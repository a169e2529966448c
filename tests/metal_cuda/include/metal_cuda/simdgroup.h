// Barriers and what the lanes of a simdgroup do together. All 32 lanes must arrive.
#pragma once
#include "memory.h"

namespace metal {

enum class mem_flags : uint { mem_none = 0, mem_device = 1, mem_threadgroup = 2 };
constexpr mem_flags operator|(mem_flags a, mem_flags b) {
    return static_cast<mem_flags>(static_cast<uint>(a) | static_cast<uint>(b));
}
inline void threadgroup_barrier(mem_flags) {
    __syncthreads();
}
inline void simdgroup_barrier(mem_flags) {
    __nvvm_bar_warp_sync(~0u);
}

inline uint lane_index() {
    return __nvvm_read_ptx_sreg_laneid();
}

// Every 32 bits of a value through `exchange`.
template <class T, class Exchange>
inline T exchange_words(T value, Exchange exchange) {
    constexpr int n_words = (sizeof(T) + 3) / 4;
    int words[n_words] = {};
    __builtin_memcpy(words, &value, sizeof(T));
    for (int i = 0; i < n_words; ++i) words[i] = exchange(words[i]);
    __builtin_memcpy(&value, words, sizeof(T));
    return value;
}
template <class T>
inline T simd_shuffle(T value, ushort lane) {
    return exchange_words(value, [=](int word) { return __nvvm_shfl_sync_idx_i32(~0u, word, lane, 31); });
}
template <class T>
inline T simd_broadcast(T value, ushort lane) {
    return simd_shuffle(value, lane);
}
template <class T>
inline T simd_broadcast_first(T value) {
    return simd_shuffle(value, 0);
}
template <class T>
inline T simd_shuffle_xor(T value, ushort mask) {
    return exchange_words(value, [=](int word) { return __nvvm_shfl_sync_bfly_i32(~0u, word, mask, 31); });
}
template <class T>
inline T simd_shuffle_down(T value, ushort delta) {
    return exchange_words(value, [=](int word) { return __nvvm_shfl_sync_down_i32(~0u, word, delta, 31); });
}
template <class T>
inline T simd_shuffle_up(T value, ushort delta) {
    return exchange_words(value, [=](int word) { return __nvvm_shfl_sync_up_i32(~0u, word, delta, 0); });
}

template <class T, class Operation>
inline T reduce(T value, Operation operation) {
    for (ushort distance = 16; distance > 0; distance /= 2) {
        value = operation(value, simd_shuffle_xor(value, distance));
    }
    return value;
}
template <class T>
inline T simd_sum(T value) {
    return reduce(value, [](T a, T b) { return a + b; });
}
template <class T>
inline T simd_max(T value) {
    return reduce(value, [](T a, T b) { return max(a, b); });
}
template <class T>
inline T simd_min(T value) {
    return reduce(value, [](T a, T b) { return min(a, b); });
}
template <class T>
inline T simd_prefix_inclusive_sum(T value) {
    for (ushort distance = 1; distance < 32; distance *= 2) {
        const T other = simd_shuffle_up(value, distance);
        if (lane_index() >= distance) value += other;
    }
    return value;
}
template <class T>
inline T simd_prefix_exclusive_sum(T value) {
    const T sum = simd_shuffle_up(simd_prefix_inclusive_sum(value), 1);
    return lane_index() == 0 ? T(0) : sum;
}
inline bool simd_any(bool value) {
    return __nvvm_vote_any_sync(~0u, value);
}
inline bool simd_all(bool value) {
    return __nvvm_vote_all_sync(~0u, value);
}

}  // namespace metal
