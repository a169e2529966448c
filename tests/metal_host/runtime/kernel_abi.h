// What passes between kernels translated by tools/translate.py and the executor that runs them.
#pragma once
#include <stddef.h>
#include <stdint.h>

namespace metal_host {

enum : uint32_t { kSimdWidth = 32, kMaxBindings = 31, kMaxThreads = 1024, kSlotBytes = 64 };

struct Binding {
    void* data;
    size_t bytes;
    bool watched = false;  // a checked kernel's reads are remembered, for a concurrent dispatch may write here
};

struct Arguments {
    Binding buffers[kMaxBindings];
    Binding shared[kMaxBindings];  // threadgroup memory
};

// One thread's place in the dispatch, a member for every position attribute.
struct Position {
    uint32_t thread_position_in_grid[3];
    uint32_t thread_position_in_threadgroup[3];
    uint32_t threadgroup_position_in_grid[3];
    uint32_t threads_per_threadgroup[3];
    uint32_t threadgroups_per_grid[3];
    uint32_t threads_per_grid[3];
    uint32_t thread_index_in_threadgroup[1];
    uint32_t thread_index_in_simdgroup[1];
    uint32_t simdgroup_index_in_threadgroup[1];
    uint32_t simdgroups_per_threadgroup[1];
    uint32_t threads_per_simdgroup[1];
};

enum class ParameterKind : uint8_t { buffer, shared, position };

struct Parameter {
    const char* name;
    ParameterKind kind;
    uint32_t index;
    uint32_t min_bytes;
    bool writable;
    const bool* enabled;  // the function constant that the parameter depends on, or null
};

struct Kernel {
    const char* name;
    void (*run)(const Arguments&, const Position&);
    const Parameter* parameters;
    uint32_t n_parameters;
    uint32_t max_threads;
};

struct FunctionConstant {
    const char* name;
    uint32_t index;
    const char* type;  // "bool", "uint" or "float"
};

// A translated file; `libraries` of a shared object is an array of pointers to them that ends with null.
struct Library {
    const Kernel* kernels;
    uint32_t n_kernels;
    const FunctionConstant* constants;
    uint32_t n_constants;
};

// Where in a .metal file a lane waits.
struct Site {
    const char* file;
    uint32_t line;
    uint32_t column;
};

// Called by kernels.

// Reduces the lanes' deposits, `kSlotBytes` apart, into the first slot; `present[lane]` tells which lanes take part.
using Reduction = void (*)(void* slots, const bool* present);

// Deposits `bytes` of the calling lane, waits for the others of its simdgroup and returns all 32 deposits.
const void* exchange(const void* value, uint32_t bytes, Reduction reduction, const Site& site);
uint32_t lane_index();
uint32_t present_lanes();  // of the latest exchange, a bit per lane
void threadgroup_barrier(uint32_t memory_flags, const Site& site);
void simdgroup_barrier(uint32_t memory_flags, const Site& site);
void* threadgroup_variable(const void* key, size_t bytes, const Site& site);
void note_atomic(const volatile void* address, uint32_t bytes);

// Read by static initialisers while a library loads; zero where undefined.
double function_constant(uint32_t index);
bool function_constant_defined(uint32_t index);

}  // namespace metal_host
