// The vector layer on AVX2 + FMA + F16C, with or without AVX-VNNI: a vector is two registers, lanes 0-1 and 2-3.
// generic.h says what each function means.
#pragma once
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace ferrule::cpu::FERRULE_ISA::simd {

struct f32x16 {
    __m256 lo, hi;
};
struct i32x16 {
    __m256i lo, hi;
};
struct u8x64 {
    __m256i lo, hi;
};
struct i8x64 {
    __m256i lo, hi;
};
struct mask16 {
    __m256 lo, hi;
};

inline constexpr int kRegisters = 8;
inline constexpr int kTileRows = 4;
inline constexpr int kTailRows = 2;
inline constexpr int kPanelVectors = 1;
inline constexpr int kFloatTileWeights = 2;
inline constexpr int kFloatTileRows = 2;
#if defined(__AVXVNNI__)
inline constexpr int kFullCodeOffset = 128;
#else
inline constexpr int kFullCodeOffset = 0;
#endif

inline __m256i load32(const void* p) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
inline __m128i load16(const void* p) {
    return _mm_loadu_si128(static_cast<const __m128i*>(p));
}
inline void store32(void* p, __m256i a) {
    _mm256_storeu_si256(static_cast<__m256i*>(p), a);
}
// Mask of the first n of 8 elements; n may be beyond 8.
inline __m256i first(size_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
inline size_t beyond8(size_t n) {
    return n > 8 ? n - 8 : 0;
}

// --- f32x16
inline f32x16 set1(float x) {
    return {_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
inline f32x16 load(const float* p) {
    return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
inline void store(float* p, f32x16 a) {
    _mm256_storeu_ps(p, a.lo), _mm256_storeu_ps(p + 8, a.hi);
}
// Masked stores are slow on some processors: whole vectors avoid them.
inline f32x16 load_partial(const float* p, size_t n) {
    if (n >= 16) return load(p);
    return {_mm256_maskload_ps(p, first(n)), _mm256_maskload_ps(p + 8, first(beyond8(n)))};
}
inline void store_partial(float* p, f32x16 a, size_t n) {
    if (n >= 16) return store(p, a);
    _mm256_maskstore_ps(p, first(n), a.lo);
    _mm256_maskstore_ps(p + 8, first(beyond8(n)), a.hi);
}
inline f32x16 operator+(f32x16 a, f32x16 b) {
    return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
}
inline f32x16 operator-(f32x16 a, f32x16 b) {
    return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}
inline f32x16 operator*(f32x16 a, f32x16 b) {
    return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}
inline f32x16 operator/(f32x16 a, f32x16 b) {
    return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
}
inline f32x16 fma(f32x16 a, f32x16 b, f32x16 c) {
    return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
inline f32x16 max(f32x16 a, f32x16 b) {
    return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
}
inline f32x16 min(f32x16 a, f32x16 b) {
    return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)};
}
inline f32x16 sqrt(f32x16 a) {
    return {_mm256_sqrt_ps(a.lo), _mm256_sqrt_ps(a.hi)};
}
inline f32x16 abs(f32x16 a) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return {_mm256_andnot_ps(sign, a.lo), _mm256_andnot_ps(sign, a.hi)};
}
inline float reduce_add(f32x16 a) {
    const __m256 x8 = _mm256_add_ps(a.lo, a.hi);
    const __m128 x4 = _mm_add_ps(_mm256_castps256_ps128(x8), _mm256_extractf128_ps(x8, 1));
    const __m128 x2 = _mm_add_ps(x4, _mm_movehl_ps(x4, x4));
    return _mm_cvtss_f32(_mm_add_ss(x2, _mm_movehdup_ps(x2)));
}
inline float reduce_max(f32x16 a) {
    const __m256 x8 = _mm256_max_ps(a.lo, a.hi);
    const __m128 x4 = _mm_max_ps(_mm256_castps256_ps128(x8), _mm256_extractf128_ps(x8, 1));
    const __m128 x2 = _mm_max_ps(x4, _mm_movehl_ps(x4, x4));
    return _mm_cvtss_f32(_mm_max_ss(x2, _mm_movehdup_ps(x2)));
}

// --- comparisons and selection
inline mask16 less(f32x16 a, f32x16 b) {
    return {_mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ)};
}
inline mask16 less_equal(f32x16 a, f32x16 b) {
    return {_mm256_cmp_ps(a.lo, b.lo, _CMP_LE_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_LE_OQ)};
}
inline mask16 equal(f32x16 a, f32x16 b) {
    return {_mm256_cmp_ps(a.lo, b.lo, _CMP_EQ_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_EQ_OQ)};
}
inline f32x16 select(mask16 m, f32x16 yes, f32x16 no) {
    return {_mm256_blendv_ps(no.lo, yes.lo, m.lo), _mm256_blendv_ps(no.hi, yes.hi, m.hi)};
}

// --- i32x16
inline i32x16 set1(int32_t x) {
    return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)};
}
inline i32x16 load(const int32_t* p) {
    return {load32(p), load32(p + 8)};
}
inline void store(int32_t* p, i32x16 a) {
    store32(p, a.lo), store32(p + 8, a.hi);
}
inline i32x16 operator+(i32x16 a, i32x16 b) {
    return {_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)};
}
inline i32x16 operator-(i32x16 a, i32x16 b) {
    return {_mm256_sub_epi32(a.lo, b.lo), _mm256_sub_epi32(a.hi, b.hi)};
}
inline i32x16 operator*(i32x16 a, i32x16 b) {
    return {_mm256_mullo_epi32(a.lo, b.lo), _mm256_mullo_epi32(a.hi, b.hi)};
}
inline i32x16 operator&(i32x16 a, i32x16 b) {
    return {_mm256_and_si256(a.lo, b.lo), _mm256_and_si256(a.hi, b.hi)};
}
inline i32x16 operator|(i32x16 a, i32x16 b) {
    return {_mm256_or_si256(a.lo, b.lo), _mm256_or_si256(a.hi, b.hi)};
}
inline i32x16 operator^(i32x16 a, i32x16 b) {
    return {_mm256_xor_si256(a.lo, b.lo), _mm256_xor_si256(a.hi, b.hi)};
}
inline i32x16 operator<<(i32x16 a, int n) {
    return {_mm256_slli_epi32(a.lo, n), _mm256_slli_epi32(a.hi, n)};
}
inline i32x16 operator>>(i32x16 a, int n) {
    return {_mm256_srai_epi32(a.lo, n), _mm256_srai_epi32(a.hi, n)};
}
inline i32x16 min(i32x16 a, i32x16 b) {
    return {_mm256_min_epi32(a.lo, b.lo), _mm256_min_epi32(a.hi, b.hi)};
}
inline i32x16 max(i32x16 a, i32x16 b) {
    return {_mm256_max_epi32(a.lo, b.lo), _mm256_max_epi32(a.hi, b.hi)};
}

inline int32_t reduce_max(i32x16 a) {
    const __m256i x8 = _mm256_max_epi32(a.lo, a.hi);
    const __m128i x4 = _mm_max_epi32(_mm256_castsi256_si128(x8), _mm256_extracti128_si256(x8, 1));
    const __m128i x2 = _mm_max_epi32(x4, _mm_shuffle_epi32(x4, _MM_SHUFFLE(1, 0, 3, 2)));
    return _mm_cvtsi128_si32(_mm_max_epi32(x2, _mm_shuffle_epi32(x2, _MM_SHUFFLE(2, 3, 0, 1))));
}

// --- conversions
inline f32x16 to_f32(i32x16 a) {
    return {_mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi)};
}
inline i32x16 load_i8(const int8_t* p) {
    return {_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))),
            _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p + 8)))};
}
inline void store_i8(int8_t* p, i32x16 a) {
    const __m256i words = _mm256_packs_epi32(a.lo, a.hi);  // 0-3, 8-11 | 4-7, 12-15
    const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm_shuffle_epi32(bytes, _MM_SHUFFLE(3, 1, 2, 0)));
}
inline i32x16 as_i32(f32x16 a) {
    return {_mm256_castps_si256(a.lo), _mm256_castps_si256(a.hi)};
}
inline f32x16 as_f32(i32x16 a) {
    return {_mm256_castsi256_ps(a.lo), _mm256_castsi256_ps(a.hi)};
}
inline i32x16 round_i32(f32x16 a) {
    return {_mm256_cvtps_epi32(a.lo), _mm256_cvtps_epi32(a.hi)};
}
inline f32x16 load_f16(const uint16_t* p) {
    return {_mm256_cvtph_ps(load16(p)), _mm256_cvtph_ps(load16(p + 8))};
}
inline void store_f16(uint16_t* p, f32x16 a) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(a.lo, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8), _mm256_cvtps_ph(a.hi, _MM_FROUND_TO_NEAREST_INT));
}
inline __m256 widen_bf16(__m128i h) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}
inline f32x16 load_bf16(const uint16_t* p) {
    return {widen_bf16(load16(p)), widen_bf16(load16(p + 8))};
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
    return {_mm256_set_m128(_mm_broadcast_ss(p + 1), _mm_broadcast_ss(p)),
            _mm256_set_m128(_mm_broadcast_ss(p + 3), _mm_broadcast_ss(p + 2))};
}
inline i32x16 lanes4(const int32_t* p) {
    return {_mm256_set_m128i(_mm_set1_epi32(p[1]), _mm_set1_epi32(p[0])),
            _mm256_set_m128i(_mm_set1_epi32(p[3]), _mm_set1_epi32(p[2]))};
}
inline f32x16 repeat4(const float* p) {
    const __m256 four = _mm256_set_m128(_mm_loadu_ps(p), _mm_loadu_ps(p));
    return {four, four};
}
inline void add_lanes(float* result, f32x16 a) {
    const __m128 x = _mm_add_ps(_mm256_castps256_ps128(a.lo), _mm256_extractf128_ps(a.lo, 1));
    _mm_storeu_ps(result, _mm_add_ps(_mm_add_ps(x, _mm256_castps256_ps128(a.hi)), _mm256_extractf128_ps(a.hi, 1)));
}
inline short half_at(const uint8_t* p) {
    short h;
    __builtin_memcpy(&h, p, 2);
    return h;
}
inline f32x16 gather_f16(const uint8_t* const p[4], size_t s) {
    const __m128i low = _mm_setr_epi16(half_at(p[0]), half_at(p[1]), half_at(p[2]), half_at(p[3]), half_at(p[0] + s),
                                       half_at(p[1] + s), half_at(p[2] + s), half_at(p[3] + s));
    const __m128i high =
        _mm_setr_epi16(half_at(p[0] + 2 * s), half_at(p[1] + 2 * s), half_at(p[2] + 2 * s), half_at(p[3] + 2 * s),
                       half_at(p[0] + 3 * s), half_at(p[1] + 3 * s), half_at(p[2] + 3 * s), half_at(p[3] + 3 * s));
    return {_mm256_cvtph_ps(low), _mm256_cvtph_ps(high)};
}
inline int32_t word_at(const uint8_t* p) {
    int32_t w;
    __builtin_memcpy(&w, p, 4);
    return w;
}
inline __m128i words_at(const uint8_t* const p[4], size_t offset) {
    return _mm_setr_epi32(word_at(p[0] + offset), word_at(p[1] + offset), word_at(p[2] + offset),
                          word_at(p[3] + offset));
}
inline i32x16 gather_words(const uint8_t* const p[4], size_t s) {
    return {_mm256_set_m128i(words_at(p, s), words_at(p, 0)), _mm256_set_m128i(words_at(p, 3 * s), words_at(p, 2 * s))};
}
inline f32x16 repeat_f16(const uint8_t* const p[4]) {
    const __m128i h = _mm_setr_epi16(half_at(p[0]), half_at(p[1]), half_at(p[2]), half_at(p[3]), 0, 0, 0, 0);
    const __m128 four = _mm_cvtph_ps(h);
    return {_mm256_set_m128(four, four), _mm256_set_m128(four, four)};
}
// The halves of 8 elements, each converted from f16, in the order low 0-3, high 0-3 | low 4-7, high 4-7.
inline f32x16 both_f16(__m256i a) {
    const __m256i order = _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15, 0, 1, 4, 5, 8, 9, 12,
                                           13, 2, 3, 6, 7, 10, 11, 14, 15);
    const __m256i h = _mm256_shuffle_epi8(a, order);
    return {_mm256_cvtph_ps(_mm256_castsi256_si128(h)), _mm256_cvtph_ps(_mm256_extracti128_si256(h, 1))};
}
inline f32x16 low_f16(i32x16 a) {
    const f32x16 x = both_f16(a.lo), y = both_f16(a.hi);
    return {_mm256_permute2f128_ps(x.lo, x.hi, 0x20), _mm256_permute2f128_ps(y.lo, y.hi, 0x20)};
}
inline f32x16 high_f16(i32x16 a) {
    const f32x16 x = both_f16(a.lo), y = both_f16(a.hi);
    return {_mm256_permute2f128_ps(x.lo, x.hi, 0x31), _mm256_permute2f128_ps(y.lo, y.hi, 0x31)};
}
inline i32x16 transpose_lanes(i32x16 a) {
    // lo = rows 0 | 1, hi = rows 2 | 3
    const __m256i low = _mm256_unpacklo_epi32(a.lo, a.hi), high = _mm256_unpackhi_epi32(a.lo, a.hi);
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    return {_mm256_permutevar8x32_epi32(low, order), _mm256_permutevar8x32_epi32(high, order)};
}
template <int lane>
inline i32x16 repeat_lane(i32x16 a) {
    const __m256i half = lane < 2 ? a.lo : a.hi;
    const __m256i all = _mm256_permute2x128_si256(half, half, lane % 2 == 0 ? 0x00 : 0x11);
    return {all, all};
}
template <int s0, int s1, int s2, int s3>
inline i32x16 shift_right_lanes(i32x16 a) {
    return {_mm256_srlv_epi32(a.lo, _mm256_setr_epi32(s0, s0, s0, s0, s1, s1, s1, s1)),
            _mm256_srlv_epi32(a.hi, _mm256_setr_epi32(s2, s2, s2, s2, s3, s3, s3, s3))};
}

// --- bytes
inline u8x64 load(const uint8_t* p) {
    return {load32(p), load32(p + 32)};
}
inline i8x64 load(const int8_t* p) {
    return {load32(p), load32(p + 32)};
}
inline void store(uint8_t* p, u8x64 a) {
    store32(p, a.lo), store32(p + 32, a.hi);
}
inline i32x16 as_i32(u8x64 a) {
    return {a.lo, a.hi};
}
inline u8x64 both(__m256i a) {
    return {a, a};
}
inline u8x64 set1_u8(uint8_t x) {
    return both(_mm256_set1_epi8(static_cast<char>(x)));
}
inline u8x64 operator&(u8x64 a, u8x64 b) {
    return {_mm256_and_si256(a.lo, b.lo), _mm256_and_si256(a.hi, b.hi)};
}
inline u8x64 operator|(u8x64 a, u8x64 b) {
    return {_mm256_or_si256(a.lo, b.lo), _mm256_or_si256(a.hi, b.hi)};
}
inline u8x64 operator^(u8x64 a, u8x64 b) {
    return {_mm256_xor_si256(a.lo, b.lo), _mm256_xor_si256(a.hi, b.hi)};
}
inline u8x64 operator+(u8x64 a, u8x64 b) {
    return {_mm256_add_epi8(a.lo, b.lo), _mm256_add_epi8(a.hi, b.hi)};
}
inline u8x64 operator-(u8x64 a, u8x64 b) {
    return {_mm256_sub_epi8(a.lo, b.lo), _mm256_sub_epi8(a.hi, b.hi)};
}
template <int n>
inline u8x64 shift_right(u8x64 a) {
    return u8x64{_mm256_srli_epi16(a.lo, n), _mm256_srli_epi16(a.hi, n)} & set1_u8(static_cast<uint8_t>(0xff >> n));
}
template <int n>
inline u8x64 shift_left(u8x64 a) {
    return u8x64{_mm256_slli_epi16(a.lo, n), _mm256_slli_epi16(a.hi, n)} & set1_u8(static_cast<uint8_t>(0xff << n));
}
inline u8x64 test_bits(u8x64 a, u8x64 bits) {
    const u8x64 set = a & bits;
    return {_mm256_cmpeq_epi8(set.lo, bits.lo), _mm256_cmpeq_epi8(set.hi, bits.hi)};
}
template <int s0, int s1, int s2, int s3>
inline u8x64 shift_right_lanes(u8x64 a) {
    return {_mm256_srlv_epi64(a.lo, _mm256_setr_epi64x(s0, s0, s1, s1)),
            _mm256_srlv_epi64(a.hi, _mm256_setr_epi64x(s2, s2, s3, s3))};
}
template <int s0, int s1, int s2, int s3>
inline u8x64 shift_lanes(u8x64 a) {
    constexpr auto left = [](int n) { return n < 0 ? 64 : n; };  // shifting by 64 leaves nothing
    constexpr auto right = [](int n) { return n < 0 ? -n : 64; };
    const __m256i left_lo = _mm256_setr_epi64x(left(s0), left(s0), left(s1), left(s1));
    const __m256i left_hi = _mm256_setr_epi64x(left(s2), left(s2), left(s3), left(s3));
    const __m256i right_lo = _mm256_setr_epi64x(right(s0), right(s0), right(s1), right(s1));
    const __m256i right_hi = _mm256_setr_epi64x(right(s2), right(s2), right(s3), right(s3));
    return {_mm256_or_si256(_mm256_sllv_epi64(a.lo, left_lo), _mm256_srlv_epi64(a.lo, right_lo)),
            _mm256_or_si256(_mm256_sllv_epi64(a.hi, left_hi), _mm256_srlv_epi64(a.hi, right_hi))};
}
inline long long repeat8(uint8_t b) {
    return static_cast<long long>(b * 0x0101010101010101u);
}
inline u8x64 lanes4_u8(uint8_t b0, uint8_t b1, uint8_t b2, uint8_t b3) {
    const long long l0 = repeat8(b0), l1 = repeat8(b1), l2 = repeat8(b2), l3 = repeat8(b3);
    return {_mm256_setr_epi64x(l0, l0, l1, l1), _mm256_setr_epi64x(l2, l2, l3, l3)};
}
inline u8x64 spread_bits(uint64_t mask) {
    const __m256i bits = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201u));
    const __m256i bytes = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3,
                                           3, 3, 3, 3, 3, 3);
    const __m256i all = _mm256_set1_epi64x(static_cast<long long>(mask));
    const u8x64 each = {_mm256_shuffle_epi8(all, bytes),
                        _mm256_shuffle_epi8(all, _mm256_add_epi8(bytes, _mm256_set1_epi8(4)))};
    return test_bits(each, both(bits));
}
inline u8x64 set_octets(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f, uint64_t g,
                        uint64_t h) {
    return {_mm256_set_epi64x(static_cast<long long>(d), static_cast<long long>(c), static_cast<long long>(b),
                              static_cast<long long>(a)),
            _mm256_set_epi64x(static_cast<long long>(h), static_cast<long long>(g), static_cast<long long>(f),
                              static_cast<long long>(e))};
}
inline u8x64 repeat16(const uint8_t* p) {
    return both(_mm256_broadcastsi128_si256(load16(p)));
}
inline i8x64 repeat4(const int8_t* p) {
    int32_t four;
    __builtin_memcpy(&four, p, 4);
    return {_mm256_set1_epi32(four), _mm256_set1_epi32(four)};
}
inline u8x64 lookup16(u8x64 table, u8x64 indices) {
    return {_mm256_shuffle_epi8(table.lo, indices.lo), _mm256_shuffle_epi8(table.hi, indices.hi)};
}
inline u8x64 load4x16(const uint8_t* p0, const uint8_t* p1, const uint8_t* p2, const uint8_t* p3) {
    return {_mm256_set_m128i(load16(p1), load16(p0)), _mm256_set_m128i(load16(p3), load16(p2))};
}
inline void store4x16(uint8_t* p0, uint8_t* p1, uint8_t* p2, uint8_t* p3, u8x64 a) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p0), _mm256_castsi256_si128(a.lo));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p1), _mm256_extracti128_si256(a.lo, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p2), _mm256_castsi256_si128(a.hi));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p3), _mm256_extracti128_si256(a.hi, 1));
}
template <class V>
inline V even_then_even(V a, V b) {
    return {_mm256_permute2x128_si256(a.lo, a.hi, 0x20), _mm256_permute2x128_si256(b.lo, b.hi, 0x20)};
}
template <class V>
inline V odd_then_odd(V a, V b) {
    return {_mm256_permute2x128_si256(a.lo, a.hi, 0x31), _mm256_permute2x128_si256(b.lo, b.hi, 0x31)};
}
inline void store_lanes(float* p, size_t stride, f32x16 a) {
    _mm_storeu_ps(p, _mm256_castps256_ps128(a.lo));
    _mm_storeu_ps(p + stride, _mm256_extractf128_ps(a.lo, 1));
    _mm_storeu_ps(p + 2 * stride, _mm256_castps256_ps128(a.hi));
    _mm_storeu_ps(p + 3 * stride, _mm256_extractf128_ps(a.hi, 1));
}
inline u8x64 even_lanes(u8x64 a, u8x64 b) {
    return {_mm256_permute2x128_si256(a.lo, b.lo, 0x20), _mm256_permute2x128_si256(a.hi, b.hi, 0x20)};
}
inline u8x64 odd_lanes(u8x64 a, u8x64 b) {
    return {_mm256_permute2x128_si256(a.lo, b.lo, 0x31), _mm256_permute2x128_si256(a.hi, b.hi, 0x31)};
}
inline u8x64 low_halves(u8x64 a, u8x64 b) {
    return {_mm256_unpacklo_epi64(a.lo, b.lo), _mm256_unpacklo_epi64(a.hi, b.hi)};
}
inline u8x64 high_halves(u8x64 a, u8x64 b) {
    return {_mm256_unpackhi_epi64(a.lo, b.lo), _mm256_unpackhi_epi64(a.hi, b.hi)};
}
inline void transpose4x4(__m256i& a, __m256i& b, __m256i& c, __m256i& d) {
    const __m256i ab_low = _mm256_unpacklo_epi32(a, b), ab_high = _mm256_unpackhi_epi32(a, b);
    const __m256i cd_low = _mm256_unpacklo_epi32(c, d), cd_high = _mm256_unpackhi_epi32(c, d);
    a = _mm256_unpacklo_epi64(ab_low, cd_low);
    b = _mm256_unpackhi_epi64(ab_low, cd_low);
    c = _mm256_unpacklo_epi64(ab_high, cd_high);
    d = _mm256_unpackhi_epi64(ab_high, cd_high);
}
inline void transpose4x4(u8x64& a, u8x64& b, u8x64& c, u8x64& d) {
    transpose4x4(a.lo, b.lo, c.lo, d.lo);
    transpose4x4(a.hi, b.hi, c.hi, d.hi);
}

// --- integer dot products
#if defined(__AVXVNNI__)
inline u8x64 full_codes(u8x64 signed_codes) {
    return signed_codes ^ set1_u8(0x80);
}
template <bool full>
inline i32x16 dot4(i32x16 acc, u8x64 codes, i8x64 x) {
    return {_mm256_dpbusd_avx_epi32(acc.lo, codes.lo, x.lo), _mm256_dpbusd_avx_epi32(acc.hi, codes.hi, x.hi)};
}
#else
inline u8x64 full_codes(u8x64 signed_codes) {
    return signed_codes;
}
template <bool full>
inline __m256i dot4(__m256i acc, __m256i codes, __m256i x) {
    // Pairs of products are at most 2 * 128 * 127: they cannot saturate 16 bits.
    if constexpr (full) {
        x = _mm256_sign_epi8(x, codes);
        codes = _mm256_abs_epi8(codes);
    }
    return _mm256_add_epi32(acc, _mm256_madd_epi16(_mm256_maddubs_epi16(codes, x), _mm256_set1_epi16(1)));
}
template <bool full>
inline i32x16 dot4(i32x16 acc, u8x64 codes, i8x64 x) {
    return {dot4<full>(acc.lo, codes.lo, x.lo), dot4<full>(acc.hi, codes.hi, x.hi)};
}
#endif
inline void store_lane_sums(int32_t* p, i32x16 a) {
    const __m256i pairs = _mm256_hadd_epi32(a.lo, a.hi);  // lanes 0, 2 | 1, 3
    const __m256i sums = _mm256_hadd_epi32(pairs, pairs);
    const __m128i even = _mm256_castsi256_si128(sums), odd = _mm256_extracti128_si256(sums, 1);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm_unpacklo_epi32(even, odd));
}
inline __m256i sum4x4(__m256i a, __m256i b, __m256i c, __m256i d) {
    return _mm256_hadd_epi32(_mm256_hadd_epi32(a, b), _mm256_hadd_epi32(c, d));
}
inline i32x16 sum4x4(i32x16 a, i32x16 b, i32x16 c, i32x16 d) {
    return {sum4x4(a.lo, b.lo, c.lo, d.lo), sum4x4(a.hi, b.hi, c.hi, d.hi)};
}

}  // namespace ferrule::cpu::FERRULE_ISA::simd
