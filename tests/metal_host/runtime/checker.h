// Watches every load and store of a checked kernel: bounds, initialisation of threadgroup memory, writes through
// read-only parameters, and data races.
//
// Two accesses to a byte, one of them a write, by different threads race unless a barrier orders them: a threadgroup
// barrier with the memory's flag, or a simdgroup barrier where both threads are of one simdgroup. Nothing orders the
// threadgroups of a dispatch, nor concurrent dispatches, whose threadgroups are numbered on. Barriers are counted; an
// access remembers the counts at its time. Two writes of the same value are not reported. Of the readers of a byte the
// last two are remembered.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "kernel_abi.h"

namespace metal_host {

enum MemoryFlags : uint32_t { kDeviceMemory = 1, kSharedMemory = 2 };

// How many barriers that order device and threadgroup memory have been passed.
struct Epochs {
    uint32_t device = 0;
    uint32_t shared = 0;

    void pass_barrier(uint32_t memory_flags) {
        if ((memory_flags & kDeviceMemory) != 0) ++device;
        if ((memory_flags & kSharedMemory) != 0) ++shared;
    }
};

// Who accesses memory, and when.
struct Accessor {
    uint32_t threadgroup;
    uint32_t thread;  // in its threadgroup
    Epochs threadgroup_epochs;
    Epochs simdgroup_epochs;
};

struct Access {
    const char* address;
    size_t bytes;
    bool write;
    bool atomic;
    const void* code;  // the instruction, for messages
};

// A threadgroup variable or parameter.
struct SharedVariable {
    const void* key;
    char* data;
    size_t bytes;
};

class Checker {
  public:
    // `reachable`: what may be read through addresses; `concurrent`: nothing orders it after the dispatch before.
    void begin_dispatch(const Kernel& kernel, const Arguments& arguments, std::span<const Binding> reachable,
                        uint32_t n_threadgroups, bool concurrent);
    void begin_threadgroup() { ++shared_generation_; }

    // Each returns a description of the fault, empty where there is none.
    std::string check_shared(const Access& access, const Accessor& accessor, const char* arena, size_t arena_bytes,
                             const std::vector<SharedVariable>& variables);
    std::string check_device(const Access& access, const Accessor& accessor);

    // The fault of the write before, if another thread had just written a different value there. Called when that write
    // has happened.
    std::string settle();

  private:
    struct Stamp {
        uint32_t threadgroup;
        uint32_t thread;
        uint32_t threadgroup_epoch;
        uint32_t simdgroup_epoch;
    };

    struct Byte {
        uint32_t generation = 0;  // of the dispatch or threadgroup; stale content counts as untouched
        bool written = false, atomic = false;
        uint8_t n_readers = 0;
        Stamp writer{};
        Stamp readers[2]{};
    };

    struct Buffer {
        const char* begin;
        const char* end;
        uint32_t index;  // kReachable for memory that no parameter names
        bool writable;
        bool watched;
        const char* name;
    };

    // Of the dispatches that run at the same time.
    struct Dispatch {
        uint32_t first_threadgroup;
        const char* kernel;
    };

    // A write to bytes that another thread wrote, unordered: harmless if it does not change them.
    struct PendingWrite {
        const char* address = nullptr;
        size_t bytes = 0;
        std::array<char, 16> before{};
        std::array<bool, 16> suspect{};
        std::string fault;
    };

    static constexpr uint32_t kReachable = UINT32_MAX;
    static constexpr size_t kPageBytes = 1024;
    using Page = std::array<Byte, kPageBytes>;

    Stamp stamp(const Accessor& accessor, uint32_t Epochs::* memory) const;
    std::string describe(const Stamp& stamp) const;
    static bool ordered(const Stamp& earlier, const Stamp& later);
    std::string check_byte(Byte& byte, uint32_t generation, const Stamp& now, const Access& access, size_t i,
                           const char* object, size_t offset);
    void suspect_write(const Access& access, size_t i, std::string fault);
    std::string out_of_bounds_device(const Access& access, const Accessor& accessor) const;

    std::vector<Buffer> buffers_;
    std::vector<Dispatch> dispatches_;
    uint32_t next_threadgroup_ = 0;
    std::unordered_map<uintptr_t, std::unique_ptr<Page>> device_;  // by address / kPageBytes
    std::vector<Byte> shared_;
    uint32_t device_generation_ = 0;
    uint32_t shared_generation_ = 0;
    PendingWrite pending_;
};

// "file:line" of an instruction of a loaded library.
std::string source_line(const void* code);

}  // namespace metal_host
