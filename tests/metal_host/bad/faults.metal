// Kernels with one fault each, and a few without, to test the executor and its checks; x has as many floats as there
// are threads in the threadgroup.
#include <metal_stdlib>

using namespace metal;

kernel void correct_reverse(device float* x [[buffer(0)]],
                            uint t [[thread_index_in_threadgroup]],
                            uint n [[threads_per_threadgroup]]) {
    threadgroup float s[256];
    s[t] = x[t];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    x[t] = s[n - 1 - t];
}

kernel void missing_barrier(device float* x [[buffer(0)]],
                            uint t [[thread_index_in_threadgroup]],
                            uint n [[threads_per_threadgroup]]) {
    threadgroup float s[256];
    s[t] = x[t];
    x[t] = s[n - 1 - t];
}

kernel void missing_second_barrier(device float* x [[buffer(0)]],
                                   uint t [[thread_index_in_threadgroup]],
                                   uint n [[threads_per_threadgroup]]) {
    threadgroup float s[256];
    for (int i = 0; i < 2; ++i) {
        s[t] = x[t];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        x[t] = s[(t + 1) % n];  // in the next round a neighbour overwrites what has yet to be read
    }
}

kernel void barrier_of_the_simdgroup_only(device float* x [[buffer(0)]],
                                          uint t [[thread_index_in_threadgroup]],
                                          uint n [[threads_per_threadgroup]]) {
    threadgroup float s[256];
    s[t] = x[t];
    simdgroup_barrier(mem_flags::mem_threadgroup);
    x[t] = s[n - 1 - t];
}

kernel void correct_barrier_of_the_simdgroup(device float* x [[buffer(0)]], uint t [[thread_index_in_threadgroup]]) {
    threadgroup float s[256];
    s[t] = x[t];
    simdgroup_barrier(mem_flags::mem_threadgroup);
    x[t] = s[t ^ 1];
}

kernel void barrier_for_other_memory(device float* x [[buffer(0)]],
                                     uint t [[thread_index_in_threadgroup]],
                                     uint n [[threads_per_threadgroup]]) {
    threadgroup float s[256];
    s[t] = x[t];
    threadgroup_barrier(mem_flags::mem_device);
    x[t] = s[n - 1 - t];
}

kernel void barrier_not_reached_by_all(device float* x [[buffer(0)]], uint t [[thread_index_in_threadgroup]]) {
    if (t < 40) threadgroup_barrier(mem_flags::mem_threadgroup);
    x[t] = 1;
}

kernel void return_before_barrier(device float* x [[buffer(0)]], uint t [[thread_index_in_threadgroup]]) {
    if (t >= 40) return;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    x[t] = 1;
}

kernel void different_simdgroup_operations(device float* x [[buffer(0)]], uint t [[thread_index_in_threadgroup]]) {
    float value = x[t];
    if ((t & 1) != 0) {
        value = simd_sum(value);
    } else {
        value = simd_max(value);
    }
    x[t] = value;
}

kernel void simdgroup_operation_not_reached_by_all(device float* x [[buffer(0)]],
                                                   uint t [[thread_index_in_threadgroup]]) {
    if (t % 32 < 16) {
        x[t] = simd_sum(x[t]);
    } else {
        threadgroup_barrier(mem_flags::mem_none);
    }
}

kernel void read_past_the_end(device const float* x [[buffer(0)]],
                              device float* y [[buffer(1)]],
                              uint t [[thread_position_in_grid]]) {
    y[t] = x[t + 1];
}

kernel void write_past_the_end(device const float* x [[buffer(0)]],
                               device float* y [[buffer(1)]],
                               uint t [[thread_position_in_grid]]) {
    y[t + 1] = x[t];
}

kernel void write_to_read_only(device const float* x [[buffer(0)]], uint t [[thread_position_in_grid]]) {
    ((device float*)x)[t] = 1;
}

kernel void read_past_a_threadgroup_variable(device float* x [[buffer(0)]], uint t [[thread_index_in_threadgroup]]) {
    threadgroup float a[64], b[64];
    a[t] = 1;
    b[t] = 2;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    x[t] = a[t + 8] + b[t];
}

kernel void uninitialised_threadgroup_memory(device float* x [[buffer(0)]], uint t [[thread_index_in_threadgroup]]) {
    threadgroup float s[64];
    if (t < 32) s[t] = 1;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    x[t] = s[t];
}

kernel void too_much_threadgroup_memory(device float* x [[buffer(0)]],
                                        threadgroup float* memory [[threadgroup(0)]],
                                        uint t [[thread_index_in_threadgroup]]) {
    threadgroup float s[4096];
    memory[t] = 1;
    s[t] = 1;
    x[t] = memory[t] + s[t];
}

kernel void two_threads_write_different_values(device float* x [[buffer(0)]], uint t [[thread_position_in_grid]]) {
    x[t / 2] = float(t);
}

kernel void correct_two_threads_write_one_value(device float* x [[buffer(0)]], uint t [[thread_position_in_grid]]) {
    x[t / 2] = float(t / 2);
}

kernel void race_between_threadgroups(device float* x [[buffer(0)]],
                                      uint t [[thread_index_in_threadgroup]],
                                      uint group [[threadgroup_position_in_grid]]) {
    if (t < 63) x[t + (group == 1 ? 0 : 1)] += 1;
}

kernel void correct_atomic(device atomic_uint* counter [[buffer(0)]], uint t [[thread_position_in_grid]]) {
    atomic_fetch_add_explicit(counter, t, memory_order_relaxed);
}
