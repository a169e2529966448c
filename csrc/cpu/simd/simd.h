// Vectors of 64 bytes on every instruction set, so that a kernel is written once: f32x16, i32x16, u8x64, i8x64.
// A vector has four 128-bit lanes, numbered 0..3; "lane" below means one of those, "element" one number.
//
// A kernel file is compiled once per instruction set with FERRULE_ISA naming its namespace; everything here lives in
// that namespace, so that the linker can never swap one set's code for another's. Compile with -ffp-contract=off:
// where a product is fused with a sum is part of a kernel's contract.
#pragma once
#include <cstddef>
#include <cstdint>

#if defined(__AVX512BW__)
#include "avx512.h"
#elif defined(__AVX2__)
#include "avx2.h"
#elif defined(__ARM_NEON)
#include "neon.h"
#else
#include "generic.h"
#endif

namespace ferrule::cpu::FERRULE_ISA::simd {

// As store, past the caches: for what is more than they hold. `p` is a multiple of 64 bytes. Other threads may read it
// after the storing thread's next stream_fence.
#if defined(__AVX512F__)
inline void stream(float* p, f32x16 a) {
    _mm512_stream_ps(p, a.v);
}
inline void stream_fence() {
    _mm_sfence();
}
#else
inline void stream(float* p, f32x16 a) {
    store(p, a);
}
inline void stream_fence() {}
#endif

inline void prefetch_l2(const void* p) {
    __builtin_prefetch(p, 0, 2);
}

inline f32x16& operator+=(f32x16& a, f32x16 b) {
    return a = a + b;
}
inline f32x16& operator*=(f32x16& a, f32x16 b) {
    return a = a * b;
}
inline i32x16& operator+=(i32x16& a, i32x16 b) {
    return a = a + b;
}

inline f32x16 zero_f32() {
    return set1(0.0f);
}
inline i32x16 zero_i32() {
    return set1(int32_t{0});
}

#if !defined(__AVX512BF16__)
// 32 values in order, rounded to bfloat16, to nearest, ties to even: a pair to an element, the first in its lower half.
inline i32x16 to_bf16(f32x16 a, f32x16 b) {
    uint32_t bits[32], pairs[16];
    store(reinterpret_cast<float*>(bits), a);
    store(reinterpret_cast<float*>(bits + 16), b);
    for (uint32_t& x : bits) {
        const bool nan = (x & 0x7fffffff) > 0x7f800000;
        x = nan ? x | 0x400000 : x + 0x7fff + (x >> 16 & 1);
    }
    for (int i = 0; i < 16; ++i) pairs[i] = bits[2 * i] >> 16 | (bits[2 * i + 1] & 0xffff0000);
    return load(reinterpret_cast<const int32_t*>(pairs));
}
#endif

}  // namespace ferrule::cpu::FERRULE_ISA::simd
