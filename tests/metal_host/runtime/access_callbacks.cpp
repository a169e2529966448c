// Checked libraries are compiled with -fsanitize=thread but linked without it: their calls for each load and store land
// here, so that no sanitizer's run time has to be loaded into Python.
#include <cstdint>
#include <cstring>

#include "executor.h"

namespace {

void note(const void* address, size_t bytes, bool write, const void* code) {
    metal_host::check_access({static_cast<const char*>(address), bytes, write, false, code});
}

}  // namespace

#define ACCESS_CALLBACKS(bytes)                             \
    void __tsan_read##bytes(void* p) {                      \
        note(p, bytes, false, __builtin_return_address(0)); \
    }                                                       \
    void __tsan_write##bytes(void* p) {                     \
        note(p, bytes, true, __builtin_return_address(0));  \
    }                                                       \
    void __tsan_unaligned_read##bytes(void* p) {            \
        note(p, bytes, false, __builtin_return_address(0)); \
    }                                                       \
    void __tsan_unaligned_write##bytes(void* p) {           \
        note(p, bytes, true, __builtin_return_address(0));  \
    }                                                       \
    void __tsan_read_write##bytes(void* p) {                \
        note(p, bytes, false, __builtin_return_address(0)); \
        note(p, bytes, true, __builtin_return_address(0));  \
    }                                                       \
    void __tsan_unaligned_read_write##bytes(void* p) {      \
        note(p, bytes, false, __builtin_return_address(0)); \
        note(p, bytes, true, __builtin_return_address(0));  \
    }

extern "C" {

ACCESS_CALLBACKS(1)
ACCESS_CALLBACKS(2)
ACCESS_CALLBACKS(4)
ACCESS_CALLBACKS(8)
ACCESS_CALLBACKS(16)

void __tsan_init() {}

void* __tsan_memcpy(void* to, const void* from, size_t bytes) {
    note(from, bytes, false, __builtin_return_address(0));
    note(to, bytes, true, __builtin_return_address(0));
    return std::memcpy(to, from, bytes);
}

void* __tsan_memset(void* to, int value, size_t bytes) {
    note(to, bytes, true, __builtin_return_address(0));
    return std::memset(to, value, bytes);
}

// libgcc 12 has no conversion from float to bfloat.
[[gnu::weak]] __bf16 __truncsfbf2(float value) {
    const auto bits = __builtin_bit_cast(uint32_t, value);
    const bool nan = (bits & 0x7fffffff) > 0x7f800000;
    const auto upper = static_cast<uint16_t>(nan ? bits >> 16 | 64 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    return __builtin_bit_cast(__bf16, upper);
}

}  // extern "C"
