// Threadgroup memory, and how a kernel gets its arguments and finds its place in the grid.
#pragma once
#include "../../../metal_host/include/metal_host/arguments.h"

#undef kernel
#define kernel __attribute__((always_inline))

namespace metal_cuda {

// A threadgroup variable of a kernel; `Id` tells the variables of a file apart.
template <int Id>
struct ThreadgroupVariable {
    template <class T>
    struct Storage {
        static __attribute__((address_space(3), loader_uninitialized)) T value;
    };
    template <class T>
    operator T&() const {
        return *(T*)&Storage<T>::value;
    }
};
template <int Id>
template <class T>
__attribute__((address_space(3), loader_uninitialized)) T ThreadgroupVariable<Id>::Storage<T>::value;

// The memory of [[threadgroup(0)]], whose size the launch gives.
extern __attribute__((address_space(3), aligned(16))) char dynamic_memory[];

// Every kernel's only argument; driver.py has the same layout. The last two buffers of Metal, parameters and sizes, are
// passed by value, for they are constant memory.
struct Arguments {
    static constexpr int kBuffers = 29, kParamsBytes = 256;
    void* buffers[kBuffers];
    alignas(16) char params[kParamsBytes];
    uint sizes[2];
};

template <class A, int Index>
inline A buffer(const Arguments& arguments) {
    const void* address = Index == Arguments::kBuffers       ? arguments.params
                          : Index == Arguments::kBuffers + 1 ? (const void*)arguments.sizes
                                                             : arguments.buffers[Index % Arguments::kBuffers];
    return ::metal_host::Memory<A>::get({const_cast<void*>(address), 0});
}
template <class A, int Index>
inline A shared() {
    static_assert(Index == 0, "the runner binds no threadgroup memory but the first");
    return ::metal_host::Memory<A>::get({(void*)dynamic_memory, 0});
}

struct Coordinates {
    uint values[3];
    Coordinates(uint x, uint y = 0, uint z = 0) : values{x, y, z} {}
    operator const uint*() const { return values; }
};
inline Coordinates thread_position_in_threadgroup() {
    return Coordinates(__nvvm_read_ptx_sreg_tid_x(), __nvvm_read_ptx_sreg_tid_y(), __nvvm_read_ptx_sreg_tid_z());
}
inline Coordinates threadgroup_position_in_grid() {
    return Coordinates(__nvvm_read_ptx_sreg_ctaid_x(), __nvvm_read_ptx_sreg_ctaid_y(), __nvvm_read_ptx_sreg_ctaid_z());
}
inline Coordinates threads_per_threadgroup() {
    return Coordinates(__nvvm_read_ptx_sreg_ntid_x(), __nvvm_read_ptx_sreg_ntid_y(), __nvvm_read_ptx_sreg_ntid_z());
}
inline Coordinates threadgroups_per_grid() {
    return Coordinates(__nvvm_read_ptx_sreg_nctaid_x(), __nvvm_read_ptx_sreg_nctaid_y(),
                       __nvvm_read_ptx_sreg_nctaid_z());
}
inline Coordinates threads_per_grid() {
    const Coordinates groups = threadgroups_per_grid(), threads = threads_per_threadgroup();
    return {groups[0] * threads[0], groups[1] * threads[1], groups[2] * threads[2]};
}
inline Coordinates thread_position_in_grid() {
    const Coordinates group = threadgroup_position_in_grid(), threads = threads_per_threadgroup();
    const Coordinates thread_in_group = thread_position_in_threadgroup();
    return {group[0] * threads[0] + thread_in_group[0], group[1] * threads[1] + thread_in_group[1],
            group[2] * threads[2] + thread_in_group[2]};
}
inline Coordinates thread_index_in_threadgroup() {
    const Coordinates position = thread_position_in_threadgroup(), threads = threads_per_threadgroup();
    return {position[0] + threads[0] * (position[1] + threads[1] * position[2])};
}
inline Coordinates thread_index_in_simdgroup() {
    return {thread_index_in_threadgroup()[0] % 32};
}
inline Coordinates simdgroup_index_in_threadgroup() {
    return {thread_index_in_threadgroup()[0] / 32};
}
inline Coordinates simdgroups_per_threadgroup() {
    const Coordinates threads = threads_per_threadgroup();
    return {(threads[0] * threads[1] * threads[2] + 31) / 32};
}
inline Coordinates threads_per_simdgroup() {
    return {32};
}

}  // namespace metal_cuda

#undef METAL_HOST_THREADGROUP_VARIABLE
#define METAL_HOST_THREADGROUP_VARIABLE \
    ::metal_cuda::ThreadgroupVariable<__COUNTER__> {}
