// The vector layer in plain C++ (see simd.h): for processors without a set of their own here, and the plainest
// statement of what each function means. fma rounds twice: the baseline has no fused instruction.
#pragma once
#include <cstddef>
#include <cstdint>

#include "../../formats/float16.h"

namespace ferrule::cpu::FERRULE_ISA::simd {

struct f32x16 {
    float v[16];
};
struct i32x16 {
    int32_t v[16];
};
struct u8x64 {
    uint8_t v[64];
};
struct i8x64 {
    int8_t v[64];
};
struct mask16 {
    bool v[16];
};

inline constexpr int kRegisters = 4;  // f32x16 values that fit the registers
// Tiles whose accumulators fit the registers: activation rows of the quantised matmul, weight and activation rows of
// the float one.
inline constexpr int kTileRows = 2;
inline constexpr int kTailRows = 1;
inline constexpr int kPanelVectors = 1;
inline constexpr int kFloatTileWeights = 2;
inline constexpr int kFloatTileRows = 2;
inline constexpr int kFullCodeOffset = 0;  // what full_codes() adds to a signed 8-bit code

template <class V, class F>
inline V each16(F f) {
    V r;
    for (int i = 0; i < 16; ++i) r.v[i] = f(i);
    return r;
}
template <class V, class F>
inline V each64(F f) {
    V r;
    for (int i = 0; i < 64; ++i) r.v[i] = static_cast<decltype(r.v[0] + 0)>(f(i));
    return r;
}

// --- f32x16
inline f32x16 set1(float x) {
    return each16<f32x16>([&](int) { return x; });
}
inline f32x16 load(const float* p) {
    f32x16 r;
    __builtin_memcpy(&r, p, sizeof r);
    return r;
}
inline void store(float* p, f32x16 a) {
    __builtin_memcpy(p, &a, sizeof a);
}
inline f32x16 load_partial(const float* p, size_t n) {
    f32x16 r{};
    __builtin_memcpy(&r, p, 4 * n);
    return r;
}
inline void store_partial(float* p, f32x16 a, size_t n) {
    __builtin_memcpy(p, &a, 4 * n);
}
inline f32x16 operator+(f32x16 a, f32x16 b) {
    return each16<f32x16>([&](int i) { return a.v[i] + b.v[i]; });
}
inline f32x16 operator-(f32x16 a, f32x16 b) {
    return each16<f32x16>([&](int i) { return a.v[i] - b.v[i]; });
}
inline f32x16 operator*(f32x16 a, f32x16 b) {
    return each16<f32x16>([&](int i) { return a.v[i] * b.v[i]; });
}
inline f32x16 operator/(f32x16 a, f32x16 b) {
    return each16<f32x16>([&](int i) { return a.v[i] / b.v[i]; });
}
inline f32x16 fma(f32x16 a, f32x16 b, f32x16 c) {
    return a * b + c;
}
inline f32x16 max(f32x16 a, f32x16 b) {
    return each16<f32x16>([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
inline f32x16 min(f32x16 a, f32x16 b) {
    return each16<f32x16>([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}
inline f32x16 sqrt(f32x16 a) {
    return each16<f32x16>([&](int i) { return __builtin_sqrtf(a.v[i]); });
}
inline f32x16 abs(f32x16 a) {
    return each16<f32x16>([&](int i) { return __builtin_fabsf(a.v[i]); });
}
// Sums by halving: element i takes i + 8, then i + 4, i + 2, i + 1.
inline float reduce_add(f32x16 a) {
    for (int half = 8; half > 0; half /= 2)
        for (int i = 0; i < half; ++i) a.v[i] += a.v[i + half];
    return a.v[0];
}
inline float reduce_max(f32x16 a) {
    for (int half = 8; half > 0; half /= 2)
        for (int i = 0; i < half; ++i) a.v[i] = a.v[i] > a.v[i + half] ? a.v[i] : a.v[i + half];
    return a.v[0];
}

// --- comparisons (false for NaN) and selection
inline mask16 less(f32x16 a, f32x16 b) {
    return each16<mask16>([&](int i) { return a.v[i] < b.v[i]; });
}
inline mask16 less_equal(f32x16 a, f32x16 b) {
    return each16<mask16>([&](int i) { return a.v[i] <= b.v[i]; });
}
inline mask16 equal(f32x16 a, f32x16 b) {
    return each16<mask16>([&](int i) { return a.v[i] == b.v[i]; });
}
inline f32x16 select(mask16 m, f32x16 yes, f32x16 no) {
    return each16<f32x16>([&](int i) { return m.v[i] ? yes.v[i] : no.v[i]; });
}

// --- i32x16: wraps on overflow
inline i32x16 set1(int32_t x) {
    return each16<i32x16>([&](int) { return x; });
}
inline i32x16 load(const int32_t* p) {
    i32x16 r;
    __builtin_memcpy(&r, p, sizeof r);
    return r;
}
inline void store(int32_t* p, i32x16 a) {
    __builtin_memcpy(p, &a, sizeof a);
}
inline i32x16 operator+(i32x16 a, i32x16 b) {
    return each16<i32x16>([&](int i) { return static_cast<int32_t>(uint32_t(a.v[i]) + uint32_t(b.v[i])); });
}
inline i32x16 operator-(i32x16 a, i32x16 b) {
    return each16<i32x16>([&](int i) { return static_cast<int32_t>(uint32_t(a.v[i]) - uint32_t(b.v[i])); });
}
inline i32x16 operator*(i32x16 a, i32x16 b) {
    return each16<i32x16>([&](int i) { return static_cast<int32_t>(uint32_t(a.v[i]) * uint32_t(b.v[i])); });
}
inline i32x16 operator&(i32x16 a, i32x16 b) {
    return each16<i32x16>([&](int i) { return a.v[i] & b.v[i]; });
}
inline i32x16 operator|(i32x16 a, i32x16 b) {
    return each16<i32x16>([&](int i) { return a.v[i] | b.v[i]; });
}
inline i32x16 operator^(i32x16 a, i32x16 b) {
    return each16<i32x16>([&](int i) { return a.v[i] ^ b.v[i]; });
}
inline i32x16 operator<<(i32x16 a, int n) {
    return each16<i32x16>([&](int i) { return static_cast<int32_t>(uint32_t(a.v[i]) << n); });
}
inline i32x16 operator>>(i32x16 a, int n) {  // keeps the sign
    return each16<i32x16>([&](int i) { return a.v[i] >> n; });
}
inline i32x16 min(i32x16 a, i32x16 b) {
    return each16<i32x16>([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}
inline i32x16 max(i32x16 a, i32x16 b) {
    return each16<i32x16>([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}

inline int32_t reduce_max(i32x16 a) {
    int32_t m = a.v[0];
    for (int i = 1; i < 16; ++i) m = m > a.v[i] ? m : a.v[i];
    return m;
}

// --- conversions
inline f32x16 to_f32(i32x16 a) {
    return each16<f32x16>([&](int i) { return static_cast<float>(a.v[i]); });
}
inline i32x16 load_i8(const int8_t* p) {
    return each16<i32x16>([&](int i) { return p[i]; });
}
inline void store_i8(int8_t* p, i32x16 a) {  // of values that fit
    for (int i = 0; i < 16; ++i) p[i] = static_cast<int8_t>(a.v[i]);
}
inline i32x16 as_i32(f32x16 a) {
    return __builtin_bit_cast(i32x16, a);
}
inline f32x16 as_f32(i32x16 a) {
    return __builtin_bit_cast(f32x16, a);
}
// To the nearest integer, ties to even; unspecified (but defined) for NaN and beyond +-2^31.
inline i32x16 round_i32(f32x16 a) {
    return each16<i32x16>([&](int i) {
        const float r = __builtin_nearbyintf(a.v[i]);
        return r >= -2147483648.0f && r < 2147483648.0f ? static_cast<int32_t>(r) : INT32_MIN;
    });
}

inline f32x16 load_f16(const uint16_t* p) {
    return each16<f32x16>([&](int i) { return formats::f16_to_f32(p[i]); });
}
inline void store_f16(uint16_t* p, f32x16 a) {
    for (int i = 0; i < 16; ++i) p[i] = formats::f32_to_f16(a.v[i]);
}
inline f32x16 load_bf16(const uint16_t* p) {
    return each16<f32x16>([&](int i) { return formats::bf16_to_f32(p[i]); });
}
// The first n of 16 values; the others are zero.
inline f32x16 load_f16_partial(const uint16_t* p, size_t n) {
    uint16_t buffer[16] = {};
    __builtin_memcpy(buffer, p, 2 * n);
    return load_f16(buffer);
}
inline f32x16 load_bf16_partial(const uint16_t* p, size_t n) {
    uint16_t buffer[16] = {};
    __builtin_memcpy(buffer, p, 2 * n);
    return load_bf16(buffer);
}

// --- spreading four numbers over the lanes
// Every element of lane g is p[g].
inline f32x16 lanes4(const float* p) {
    return each16<f32x16>([&](int i) { return p[i / 4]; });
}
inline i32x16 lanes4(const int32_t* p) {
    return each16<i32x16>([&](int i) { return p[i / 4]; });
}
// Element r of every lane is p[r].
inline f32x16 repeat4(const float* p) {
    return each16<f32x16>([&](int i) { return p[i % 4]; });
}
// result[r] = ((lane 0 + lane 1) + lane 2) + lane 3.
inline void add_lanes(float* result, f32x16 a) {
    for (int r = 0; r < 4; ++r) result[r] = ((a.v[r] + a.v[4 + r]) + a.v[8 + r]) + a.v[12 + r];
}
// Element r of lane g is the f16 at p[r] + g * stride bytes.
inline f32x16 gather_f16(const uint8_t* const p[4], size_t stride) {
    return each16<f32x16>([&](int i) {
        uint16_t h;
        __builtin_memcpy(&h, p[i % 4] + static_cast<size_t>(i / 4) * stride, 2);
        return formats::f16_to_f32(h);
    });
}
// Element r of lane g is the 32-bit word at p[r] + g * stride bytes.
inline i32x16 gather_words(const uint8_t* const p[4], size_t stride) {
    return each16<i32x16>([&](int i) {
        int32_t w;
        __builtin_memcpy(&w, p[i % 4] + static_cast<size_t>(i / 4) * stride, 4);
        return w;
    });
}
// Element r of every lane is the f16 at p[r].
inline f32x16 repeat_f16(const uint8_t* const p[4]) {
    return gather_f16(p, 0);
}
// The f16 in the low and the high half of each element.
inline f32x16 low_f16(i32x16 a) {
    return each16<f32x16>([&](int i) { return formats::f16_to_f32(static_cast<uint16_t>(a.v[i])); });
}
inline f32x16 high_f16(i32x16 a) {
    return low_f16(a >> 16);
}
// Element r of lane g is element g of lane r.
inline i32x16 transpose_lanes(i32x16 a) {
    return each16<i32x16>([&](int i) { return a.v[i % 4 * 4 + i / 4]; });
}
template <int lane>
inline i32x16 repeat_lane(i32x16 a) {  // to every lane
    return each16<i32x16>([&](int i) { return a.v[4 * lane + i % 4]; });
}
// Shifts the elements of lane g by the g-th count, zeros come in.
template <int s0, int s1, int s2, int s3>
inline i32x16 shift_right_lanes(i32x16 a) {
    constexpr int counts[4] = {s0, s1, s2, s3};
    return each16<i32x16>([&](int i) { return static_cast<int32_t>(static_cast<uint32_t>(a.v[i]) >> counts[i / 4]); });
}

// --- bytes
inline u8x64 load(const uint8_t* p) {
    u8x64 r;
    __builtin_memcpy(&r, p, sizeof r);
    return r;
}
inline i8x64 load(const int8_t* p) {
    i8x64 r;
    __builtin_memcpy(&r, p, sizeof r);
    return r;
}
inline void store(uint8_t* p, u8x64 a) {
    __builtin_memcpy(p, &a, sizeof a);
}
inline i32x16 as_i32(u8x64 a) {
    return __builtin_bit_cast(i32x16, a);
}
inline u8x64 set1_u8(uint8_t x) {
    return each64<u8x64>([&](int) { return x; });
}
inline u8x64 operator&(u8x64 a, u8x64 b) {
    return each64<u8x64>([&](int i) { return a.v[i] & b.v[i]; });
}
inline u8x64 operator|(u8x64 a, u8x64 b) {
    return each64<u8x64>([&](int i) { return a.v[i] | b.v[i]; });
}
inline u8x64 operator^(u8x64 a, u8x64 b) {
    return each64<u8x64>([&](int i) { return a.v[i] ^ b.v[i]; });
}
inline u8x64 operator+(u8x64 a, u8x64 b) {
    return each64<u8x64>([&](int i) { return a.v[i] + b.v[i]; });
}
inline u8x64 operator-(u8x64 a, u8x64 b) {
    return each64<u8x64>([&](int i) { return a.v[i] - b.v[i]; });
}
template <int n>
inline u8x64 shift_right(u8x64 a) {  // within each byte
    return each64<u8x64>([&](int i) { return a.v[i] >> n; });
}
template <int n>
inline u8x64 shift_left(u8x64 a) {
    return each64<u8x64>([&](int i) { return a.v[i] << n; });
}
// 0xff where a has the bit that is set in bits (one per byte), else 0.
inline u8x64 test_bits(u8x64 a, u8x64 bits) {
    return each64<u8x64>([&](int i) { return (a.v[i] & bits.v[i]) != 0 ? 0xff : 0; });
}
// Shifts lane g by the g-th count; bits cross from the next byte, so mask the result.
template <int s0, int s1, int s2, int s3>
inline u8x64 shift_right_lanes(u8x64 a) {
    constexpr int counts[4] = {s0, s1, s2, s3};
    return each64<u8x64>([&](int i) { return a.v[i] >> counts[i / 16]; });
}
// Shifts lane g left by the g-th count, right by a negative one; mask the result as above.
template <int s0, int s1, int s2, int s3>
inline u8x64 shift_lanes(u8x64 a) {
    constexpr int counts[4] = {s0, s1, s2, s3};
    return each64<u8x64>([&](int i) {
        const int n = counts[i / 16];
        return static_cast<uint8_t>(n < 0 ? a.v[i] >> -n : a.v[i] << n);
    });
}
inline u8x64 lanes4_u8(uint8_t b0, uint8_t b1, uint8_t b2, uint8_t b3) {  // every byte of lane g is the g-th
    const uint8_t bytes[4] = {b0, b1, b2, b3};
    return each64<u8x64>([&](int i) { return bytes[i / 16]; });
}
// 0xff in byte i where bit i of mask is set, else 0.
inline u8x64 spread_bits(uint64_t mask) {
    return each64<u8x64>([&](int i) { return (mask >> i & 1) != 0 ? 0xff : 0; });
}
// Eight bytes each, the lowest first.
inline u8x64 set_octets(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f, uint64_t g,
                        uint64_t h) {
    const uint64_t octets[8] = {a, b, c, d, e, f, g, h};
    return each64<u8x64>([&](int i) { return octets[i / 8] >> (i % 8 * 8); });
}
inline u8x64 repeat16(const uint8_t* p) {  // 16 bytes to every lane
    return each64<u8x64>([&](int i) { return p[i % 16]; });
}
inline i8x64 repeat4(const int8_t* p) {  // 4 bytes to every group of 4
    return each64<i8x64>([&](int i) { return p[i % 4]; });
}
// Looks indices (< 16) up in the 16 bytes of their own lane of table.
inline u8x64 lookup16(u8x64 table, u8x64 indices) {
    return each64<u8x64>([&](int i) { return table.v[i / 16 * 16 + indices.v[i]]; });
}
// Lane g is the 16 bytes at the g-th pointer.
inline u8x64 load4x16(const uint8_t* p0, const uint8_t* p1, const uint8_t* p2, const uint8_t* p3) {
    u8x64 r;
    __builtin_memcpy(r.v, p0, 16);
    __builtin_memcpy(r.v + 16, p1, 16);
    __builtin_memcpy(r.v + 32, p2, 16);
    __builtin_memcpy(r.v + 48, p3, 16);
    return r;
}
inline void store4x16(uint8_t* p0, uint8_t* p1, uint8_t* p2, uint8_t* p3, u8x64 a) {
    __builtin_memcpy(p0, a.v, 16);
    __builtin_memcpy(p1, a.v + 16, 16);
    __builtin_memcpy(p2, a.v + 32, 16);
    __builtin_memcpy(p3, a.v + 48, 16);
}
// Lane g to p + g * stride.
inline void store_lanes(float* p, size_t stride, f32x16 a) {
    for (size_t g = 0; g < 4; ++g) __builtin_memcpy(p + g * stride, a.v + 4 * g, 16);
}
// {a0, a2, b0, b2} and {a1, a3, b1, b3} of the lanes of a and b.
template <class V>
inline V even_then_even(V a, V b) {
    return each64<V>([&](int i) { return (i < 32 ? a : b).v[i / 16 % 2 * 32 + i % 16]; });
}
template <class V>
inline V odd_then_odd(V a, V b) {
    return each64<V>([&](int i) { return (i < 32 ? a : b).v[i / 16 % 2 * 32 + 16 + i % 16]; });
}
// {a0, b0, a2, b2} and {a1, b1, a3, b3} of the lanes of a and b.
inline u8x64 even_lanes(u8x64 a, u8x64 b) {
    return each64<u8x64>([&](int i) { return i / 16 % 2 == 0 ? a.v[i] : b.v[i - 16]; });
}
inline u8x64 odd_lanes(u8x64 a, u8x64 b) {
    return each64<u8x64>([&](int i) { return i / 16 % 2 == 0 ? a.v[i + 16] : b.v[i]; });
}
// The low (high) 8 bytes of each lane of a, then those of b.
inline u8x64 low_halves(u8x64 a, u8x64 b) {
    return each64<u8x64>([&](int i) { return i % 16 < 8 ? a.v[i] : b.v[i - 8]; });
}
inline u8x64 high_halves(u8x64 a, u8x64 b) {
    return each64<u8x64>([&](int i) { return i % 16 < 8 ? a.v[i + 8] : b.v[i]; });
}
// In each lane, the 4 x 4 matrix of 4-byte elements whose rows are a, b, c, d is transposed.
inline void transpose4x4(u8x64& a, u8x64& b, u8x64& c, u8x64& d) {
    const u8x64 rows[4] = {a, b, c, d};
    u8x64 columns[4];
    for (int lane = 0; lane < 4; ++lane)
        for (int i = 0; i < 4; ++i)
            for (int j = 0; j < 4; ++j)
                __builtin_memcpy(columns[j].v + 16 * lane + 4 * i, rows[i].v + 16 * lane + 4 * j, 4);
    a = columns[0], b = columns[1], c = columns[2], d = columns[3];
}

// --- integer dot products
// A weight code of full 8-bit range, from its signed value, in the form that dot4<true> wants.
inline u8x64 full_codes(u8x64 signed_codes) {
    return signed_codes;
}
// acc + the products of 4 adjacent bytes, summed exactly. full = false: codes <= 127; true: from full_codes().
// x must not be -128.
template <bool full>
inline i32x16 dot4(i32x16 acc, u8x64 codes, i8x64 x) {
    return each16<i32x16>([&](int i) {
        int32_t sum = acc.v[i];
        for (int j = 4 * i; j < 4 * i + 4; ++j) sum += int32_t{static_cast<int8_t>(codes.v[j])} * x.v[j];
        return sum;
    });
}
// p[g] is the sum of the four elements of lane g.
inline void store_lane_sums(int32_t* p, i32x16 a) {
    for (int g = 0; g < 4; ++g) p[g] = (a.v[4 * g] + a.v[4 * g + 1]) + (a.v[4 * g + 2] + a.v[4 * g + 3]);
}
// Element r of lane g is the sum of the four elements of lane g of the r-th argument.
inline i32x16 sum4x4(i32x16 a, i32x16 b, i32x16 c, i32x16 d) {
    const i32x16* rows[4] = {&a, &b, &c, &d};
    return each16<i32x16>([&](int i) {
        const int32_t* v = rows[i % 4]->v + i / 4 * 4;
        return (v[0] + v[1]) + (v[2] + v[3]);
    });
}

}  // namespace ferrule::cpu::FERRULE_ISA::simd
