// The vector layer on 64-bit Arm: a vector is four registers, one per lane. Uses the dot product extension where the
// compiler may. generic.h says what each function means.
#pragma once
#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

namespace ferrule::cpu::FERRULE_ISA::simd {

struct f32x16 {
    float32x4_t v[4];
};
struct i32x16 {
    int32x4_t v[4];
};
struct u8x64 {
    uint8x16_t v[4];
};
struct i8x64 {
    int8x16_t v[4];
};
struct mask16 {
    uint32x4_t v[4];
};

inline constexpr int kRegisters = 8;
inline constexpr int kTileRows = 4;
inline constexpr int kTailRows = 2;
inline constexpr int kPanelVectors = 1;
inline constexpr int kFloatTileWeights = 2;
inline constexpr int kFloatTileRows = 3;
inline constexpr int kFullCodeOffset = 0;

template <class V, class F>
inline V each(F f) {
    return {{f(0), f(1), f(2), f(3)}};
}

// --- f32x16
inline f32x16 set1(float x) {
    return each<f32x16>([&](int) { return vdupq_n_f32(x); });
}
inline f32x16 load(const float* p) {
    return each<f32x16>([&](int i) { return vld1q_f32(p + 4 * i); });
}
inline void store(float* p, f32x16 a) {
    for (int i = 0; i < 4; ++i) vst1q_f32(p + 4 * i, a.v[i]);
}
inline f32x16 load_partial(const float* p, size_t n) {
    if (n >= 16) return load(p);
    float buffer[16] = {};
    __builtin_memcpy(buffer, p, 4 * n);
    return load(buffer);
}
inline void store_partial(float* p, f32x16 a, size_t n) {
    if (n >= 16) return store(p, a);
    float buffer[16];
    store(buffer, a);
    __builtin_memcpy(p, buffer, 4 * n);
}
inline f32x16 operator+(f32x16 a, f32x16 b) {
    return each<f32x16>([&](int i) { return vaddq_f32(a.v[i], b.v[i]); });
}
inline f32x16 operator-(f32x16 a, f32x16 b) {
    return each<f32x16>([&](int i) { return vsubq_f32(a.v[i], b.v[i]); });
}
inline f32x16 operator*(f32x16 a, f32x16 b) {
    return each<f32x16>([&](int i) { return vmulq_f32(a.v[i], b.v[i]); });
}
inline f32x16 operator/(f32x16 a, f32x16 b) {
    return each<f32x16>([&](int i) { return vdivq_f32(a.v[i], b.v[i]); });
}
inline f32x16 fma(f32x16 a, f32x16 b, f32x16 c) {
    return each<f32x16>([&](int i) { return vfmaq_f32(c.v[i], a.v[i], b.v[i]); });
}
inline f32x16 max(f32x16 a, f32x16 b) {
    return each<f32x16>([&](int i) { return vmaxq_f32(a.v[i], b.v[i]); });
}
inline f32x16 min(f32x16 a, f32x16 b) {
    return each<f32x16>([&](int i) { return vminq_f32(a.v[i], b.v[i]); });
}
inline f32x16 sqrt(f32x16 a) {
    return each<f32x16>([&](int i) { return vsqrtq_f32(a.v[i]); });
}
inline f32x16 abs(f32x16 a) {
    return each<f32x16>([&](int i) { return vabsq_f32(a.v[i]); });
}
inline float reduce_add(f32x16 a) {
    const float32x4_t x4 = vaddq_f32(vaddq_f32(a.v[0], a.v[2]), vaddq_f32(a.v[1], a.v[3]));
    const float32x2_t x2 = vadd_f32(vget_low_f32(x4), vget_high_f32(x4));
    return vget_lane_f32(x2, 0) + vget_lane_f32(x2, 1);
}
inline float reduce_max(f32x16 a) {
    return vmaxvq_f32(vmaxq_f32(vmaxq_f32(a.v[0], a.v[2]), vmaxq_f32(a.v[1], a.v[3])));
}

// --- comparisons and selection
inline mask16 less(f32x16 a, f32x16 b) {
    return each<mask16>([&](int i) { return vcltq_f32(a.v[i], b.v[i]); });
}
inline mask16 less_equal(f32x16 a, f32x16 b) {
    return each<mask16>([&](int i) { return vcleq_f32(a.v[i], b.v[i]); });
}
inline mask16 equal(f32x16 a, f32x16 b) {
    return each<mask16>([&](int i) { return vceqq_f32(a.v[i], b.v[i]); });
}
inline f32x16 select(mask16 m, f32x16 yes, f32x16 no) {
    return each<f32x16>([&](int i) { return vbslq_f32(m.v[i], yes.v[i], no.v[i]); });
}

// --- i32x16
inline i32x16 set1(int32_t x) {
    return each<i32x16>([&](int) { return vdupq_n_s32(x); });
}
inline i32x16 load(const int32_t* p) {
    return each<i32x16>([&](int i) { return vld1q_s32(p + 4 * i); });
}
inline void store(int32_t* p, i32x16 a) {
    for (int i = 0; i < 4; ++i) vst1q_s32(p + 4 * i, a.v[i]);
}
inline i32x16 operator+(i32x16 a, i32x16 b) {
    return each<i32x16>([&](int i) { return vaddq_s32(a.v[i], b.v[i]); });
}
inline i32x16 operator-(i32x16 a, i32x16 b) {
    return each<i32x16>([&](int i) { return vsubq_s32(a.v[i], b.v[i]); });
}
inline i32x16 operator*(i32x16 a, i32x16 b) {
    return each<i32x16>([&](int i) { return vmulq_s32(a.v[i], b.v[i]); });
}
inline i32x16 operator&(i32x16 a, i32x16 b) {
    return each<i32x16>([&](int i) { return vandq_s32(a.v[i], b.v[i]); });
}
inline i32x16 operator|(i32x16 a, i32x16 b) {
    return each<i32x16>([&](int i) { return vorrq_s32(a.v[i], b.v[i]); });
}
inline i32x16 operator^(i32x16 a, i32x16 b) {
    return each<i32x16>([&](int i) { return veorq_s32(a.v[i], b.v[i]); });
}
inline i32x16 operator<<(i32x16 a, int n) {
    return each<i32x16>([&](int i) { return vshlq_s32(a.v[i], vdupq_n_s32(n)); });
}
inline i32x16 operator>>(i32x16 a, int n) {
    return each<i32x16>([&](int i) { return vshlq_s32(a.v[i], vdupq_n_s32(-n)); });
}
inline i32x16 min(i32x16 a, i32x16 b) {
    return each<i32x16>([&](int i) { return vminq_s32(a.v[i], b.v[i]); });
}
inline i32x16 max(i32x16 a, i32x16 b) {
    return each<i32x16>([&](int i) { return vmaxq_s32(a.v[i], b.v[i]); });
}
inline int32_t reduce_max(i32x16 a) {
    return vmaxvq_s32(vmaxq_s32(vmaxq_s32(a.v[0], a.v[2]), vmaxq_s32(a.v[1], a.v[3])));
}

// --- conversions
inline f32x16 to_f32(i32x16 a) {
    return each<f32x16>([&](int i) { return vcvtq_f32_s32(a.v[i]); });
}
inline i32x16 load_i8(const int8_t* p) {
    const int8x16_t bytes = vld1q_s8(p);
    const int16x8_t low = vmovl_s8(vget_low_s8(bytes)), high = vmovl_s8(vget_high_s8(bytes));
    return {{vmovl_s16(vget_low_s16(low)), vmovl_s16(vget_high_s16(low)), vmovl_s16(vget_low_s16(high)),
             vmovl_s16(vget_high_s16(high))}};
}
inline void store_i8(int8_t* p, i32x16 a) {
    const int16x8_t low = vcombine_s16(vmovn_s32(a.v[0]), vmovn_s32(a.v[1]));
    const int16x8_t high = vcombine_s16(vmovn_s32(a.v[2]), vmovn_s32(a.v[3]));
    vst1q_s8(p, vcombine_s8(vmovn_s16(low), vmovn_s16(high)));
}
inline i32x16 as_i32(f32x16 a) {
    return each<i32x16>([&](int i) { return vreinterpretq_s32_f32(a.v[i]); });
}
inline f32x16 as_f32(i32x16 a) {
    return each<f32x16>([&](int i) { return vreinterpretq_f32_s32(a.v[i]); });
}
inline i32x16 round_i32(f32x16 a) {
    return each<i32x16>([&](int i) { return vcvtnq_s32_f32(a.v[i]); });
}
inline float32x4_t widen_f16(uint16x4_t h) {
    return vcvt_f32_f16(vreinterpret_f16_u16(h));
}
inline f32x16 load_f16(const uint16_t* p) {
    return each<f32x16>([&](int i) { return widen_f16(vld1_u16(p + 4 * i)); });
}
inline void store_f16(uint16_t* p, f32x16 a) {
    for (int i = 0; i < 4; ++i) vst1_u16(p + 4 * i, vreinterpret_u16_f16(vcvt_f16_f32(a.v[i])));
}
inline f32x16 load_bf16(const uint16_t* p) {
    return each<f32x16>([&](int i) { return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p + 4 * i), 16)); });
}
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
inline f32x16 lanes4(const float* p) {
    return each<f32x16>([&](int i) { return vdupq_n_f32(p[i]); });
}
inline i32x16 lanes4(const int32_t* p) {
    return each<i32x16>([&](int i) { return vdupq_n_s32(p[i]); });
}
inline f32x16 repeat4(const float* p) {
    return each<f32x16>([&](int) { return vld1q_f32(p); });
}
inline void add_lanes(float* result, f32x16 a) {
    vst1q_f32(result, vaddq_f32(vaddq_f32(vaddq_f32(a.v[0], a.v[1]), a.v[2]), a.v[3]));
}
inline uint16x4_t halves_at(const uint8_t* const p[4], size_t offset) {
    uint16_t h[4];
    for (int r = 0; r < 4; ++r) __builtin_memcpy(h + r, p[r] + offset, 2);
    return vld1_u16(h);
}
inline f32x16 gather_f16(const uint8_t* const p[4], size_t stride) {
    return each<f32x16>([&](int i) { return widen_f16(halves_at(p, static_cast<size_t>(i) * stride)); });
}
inline i32x16 gather_words(const uint8_t* const p[4], size_t stride) {
    return each<i32x16>([&](int i) {
        int32_t w[4];
        for (int r = 0; r < 4; ++r) __builtin_memcpy(w + r, p[r] + static_cast<size_t>(i) * stride, 4);
        return vld1q_s32(w);
    });
}
inline f32x16 repeat_f16(const uint8_t* const p[4]) {
    const float32x4_t four = widen_f16(halves_at(p, 0));
    return {{four, four, four, four}};
}
inline f32x16 low_f16(i32x16 a) {
    return each<f32x16>([&](int i) { return widen_f16(vmovn_u32(vreinterpretq_u32_s32(a.v[i]))); });
}
inline f32x16 high_f16(i32x16 a) {
    return each<f32x16>([&](int i) { return widen_f16(vshrn_n_u32(vreinterpretq_u32_s32(a.v[i]), 16)); });
}
inline void transpose(uint32x4_t v[4]) {
    const uint32x4_t ab_even = vtrn1q_u32(v[0], v[1]), ab_odd = vtrn2q_u32(v[0], v[1]);
    const uint32x4_t cd_even = vtrn1q_u32(v[2], v[3]), cd_odd = vtrn2q_u32(v[2], v[3]);
    const auto pairs = [](uint32x4_t a, uint32x4_t b, bool upper) {
        const uint64x2_t a2 = vreinterpretq_u64_u32(a), b2 = vreinterpretq_u64_u32(b);
        return vreinterpretq_u32_u64(upper ? vtrn2q_u64(a2, b2) : vtrn1q_u64(a2, b2));
    };
    v[0] = pairs(ab_even, cd_even, false);
    v[1] = pairs(ab_odd, cd_odd, false);
    v[2] = pairs(ab_even, cd_even, true);
    v[3] = pairs(ab_odd, cd_odd, true);
}
inline i32x16 transpose_lanes(i32x16 a) {
    uint32x4_t v[4];
    for (int i = 0; i < 4; ++i) v[i] = vreinterpretq_u32_s32(a.v[i]);
    transpose(v);
    return each<i32x16>([&](int i) { return vreinterpretq_s32_u32(v[i]); });
}
template <int lane>
inline i32x16 repeat_lane(i32x16 a) {
    return {{a.v[lane], a.v[lane], a.v[lane], a.v[lane]}};
}
template <int s0, int s1, int s2, int s3>
inline i32x16 shift_right_lanes(i32x16 a) {
    constexpr int counts[4] = {s0, s1, s2, s3};
    return each<i32x16>([&](int i) {
        return vreinterpretq_s32_u32(vshlq_u32(vreinterpretq_u32_s32(a.v[i]), vdupq_n_s32(-counts[i])));
    });
}

// --- bytes
inline u8x64 load(const uint8_t* p) {
    return each<u8x64>([&](int i) { return vld1q_u8(p + 16 * i); });
}
inline i8x64 load(const int8_t* p) {
    return each<i8x64>([&](int i) { return vld1q_s8(p + 16 * i); });
}
inline void store(uint8_t* p, u8x64 a) {
    for (int i = 0; i < 4; ++i) vst1q_u8(p + 16 * i, a.v[i]);
}
inline i32x16 as_i32(u8x64 a) {
    return each<i32x16>([&](int i) { return vreinterpretq_s32_u8(a.v[i]); });
}
inline u8x64 set1_u8(uint8_t x) {
    return each<u8x64>([&](int) { return vdupq_n_u8(x); });
}
inline u8x64 operator&(u8x64 a, u8x64 b) {
    return each<u8x64>([&](int i) { return vandq_u8(a.v[i], b.v[i]); });
}
inline u8x64 operator|(u8x64 a, u8x64 b) {
    return each<u8x64>([&](int i) { return vorrq_u8(a.v[i], b.v[i]); });
}
inline u8x64 operator^(u8x64 a, u8x64 b) {
    return each<u8x64>([&](int i) { return veorq_u8(a.v[i], b.v[i]); });
}
inline u8x64 operator+(u8x64 a, u8x64 b) {
    return each<u8x64>([&](int i) { return vaddq_u8(a.v[i], b.v[i]); });
}
inline u8x64 operator-(u8x64 a, u8x64 b) {
    return each<u8x64>([&](int i) { return vsubq_u8(a.v[i], b.v[i]); });
}
template <int n>
inline u8x64 shift_right(u8x64 a) {
    return each<u8x64>([&](int i) { return vshrq_n_u8(a.v[i], n); });
}
template <int n>
inline u8x64 shift_left(u8x64 a) {
    return each<u8x64>([&](int i) { return vshlq_n_u8(a.v[i], n); });
}
inline u8x64 test_bits(u8x64 a, u8x64 bits) {
    return each<u8x64>([&](int i) { return vtstq_u8(a.v[i], bits.v[i]); });
}
template <int s0, int s1, int s2, int s3>
inline u8x64 shift_right_lanes(u8x64 a) {
    constexpr int8_t counts[4] = {-s0, -s1, -s2, -s3};
    return each<u8x64>([&](int i) { return vshlq_u8(a.v[i], vdupq_n_s8(counts[i])); });
}
template <int s0, int s1, int s2, int s3>
inline u8x64 shift_lanes(u8x64 a) {
    constexpr int8_t counts[4] = {s0, s1, s2, s3};
    return each<u8x64>([&](int i) { return vshlq_u8(a.v[i], vdupq_n_s8(counts[i])); });
}
inline u8x64 lanes4_u8(uint8_t b0, uint8_t b1, uint8_t b2, uint8_t b3) {
    return {{vdupq_n_u8(b0), vdupq_n_u8(b1), vdupq_n_u8(b2), vdupq_n_u8(b3)}};
}
inline u8x64 spread_bits(uint64_t mask) {
    const uint8x16_t bits = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201u));
    return each<u8x64>([&](int i) {
        const uint8_t low = static_cast<uint8_t>(mask >> 16 * i), high = static_cast<uint8_t>(mask >> (16 * i + 8));
        return vtstq_u8(vcombine_u8(vdup_n_u8(low), vdup_n_u8(high)), bits);
    });
}
inline u8x64 set_octets(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f, uint64_t g,
                        uint64_t h) {
    return {{vcombine_u8(vcreate_u8(a), vcreate_u8(b)), vcombine_u8(vcreate_u8(c), vcreate_u8(d)),
             vcombine_u8(vcreate_u8(e), vcreate_u8(f)), vcombine_u8(vcreate_u8(g), vcreate_u8(h))}};
}
inline u8x64 repeat16(const uint8_t* p) {
    return each<u8x64>([&](int) { return vld1q_u8(p); });
}
inline i8x64 repeat4(const int8_t* p) {
    int32_t four;
    __builtin_memcpy(&four, p, 4);
    return each<i8x64>([&](int) { return vreinterpretq_s8_s32(vdupq_n_s32(four)); });
}
inline u8x64 lookup16(u8x64 table, u8x64 indices) {
    return each<u8x64>([&](int i) { return vqtbl1q_u8(table.v[i], indices.v[i]); });
}
inline u8x64 load4x16(const uint8_t* p0, const uint8_t* p1, const uint8_t* p2, const uint8_t* p3) {
    return {{vld1q_u8(p0), vld1q_u8(p1), vld1q_u8(p2), vld1q_u8(p3)}};
}
inline void store4x16(uint8_t* p0, uint8_t* p1, uint8_t* p2, uint8_t* p3, u8x64 a) {
    vst1q_u8(p0, a.v[0]), vst1q_u8(p1, a.v[1]), vst1q_u8(p2, a.v[2]), vst1q_u8(p3, a.v[3]);
}
inline void store_lanes(float* p, size_t stride, f32x16 a) {
    for (size_t g = 0; g < 4; ++g) vst1q_f32(p + g * stride, a.v[g]);
}
template <class V>
inline V even_then_even(V a, V b) {
    return {{a.v[0], a.v[2], b.v[0], b.v[2]}};
}
template <class V>
inline V odd_then_odd(V a, V b) {
    return {{a.v[1], a.v[3], b.v[1], b.v[3]}};
}
inline u8x64 even_lanes(u8x64 a, u8x64 b) {
    return {{a.v[0], b.v[0], a.v[2], b.v[2]}};
}
inline u8x64 odd_lanes(u8x64 a, u8x64 b) {
    return {{a.v[1], b.v[1], a.v[3], b.v[3]}};
}
inline u8x64 low_halves(u8x64 a, u8x64 b) {
    return each<u8x64>([&](int i) { return vcombine_u8(vget_low_u8(a.v[i]), vget_low_u8(b.v[i])); });
}
inline u8x64 high_halves(u8x64 a, u8x64 b) {
    return each<u8x64>([&](int i) { return vcombine_u8(vget_high_u8(a.v[i]), vget_high_u8(b.v[i])); });
}
inline void transpose4x4(u8x64& a, u8x64& b, u8x64& c, u8x64& d) {
    for (int i = 0; i < 4; ++i) {
        uint32x4_t v[4] = {vreinterpretq_u32_u8(a.v[i]), vreinterpretq_u32_u8(b.v[i]), vreinterpretq_u32_u8(c.v[i]),
                           vreinterpretq_u32_u8(d.v[i])};
        transpose(v);
        a.v[i] = vreinterpretq_u8_u32(v[0]), b.v[i] = vreinterpretq_u8_u32(v[1]);
        c.v[i] = vreinterpretq_u8_u32(v[2]), d.v[i] = vreinterpretq_u8_u32(v[3]);
    }
}

// --- integer dot products: codes count as signed
inline u8x64 full_codes(u8x64 signed_codes) {
    return signed_codes;
}
template <bool full>
inline i32x16 dot4(i32x16 acc, u8x64 codes, i8x64 x) {
    return each<i32x16>([&](int i) {
        const int8x16_t c = vreinterpretq_s8_u8(codes.v[i]);
#if defined(__ARM_FEATURE_DOTPROD)
        return vdotq_s32(acc.v[i], c, x.v[i]);
#else
        const int32x4_t low = vpaddlq_s16(vmull_s8(vget_low_s8(c), vget_low_s8(x.v[i])));
        const int32x4_t high = vpaddlq_s16(vmull_high_s8(c, x.v[i]));
        return vaddq_s32(acc.v[i], vpaddq_s32(low, high));
#endif
    });
}
inline void store_lane_sums(int32_t* p, i32x16 a) {
    vst1q_s32(p, vpaddq_s32(vpaddq_s32(a.v[0], a.v[1]), vpaddq_s32(a.v[2], a.v[3])));
}
inline i32x16 sum4x4(i32x16 a, i32x16 b, i32x16 c, i32x16 d) {
    return each<i32x16>([&](int i) { return vpaddq_s32(vpaddq_s32(a.v[i], b.v[i]), vpaddq_s32(c.v[i], d.v[i])); });
}

}  // namespace ferrule::cpu::FERRULE_ISA::simd
