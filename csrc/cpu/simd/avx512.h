// The vector layer on AVX-512 F/BW/VL/DQ, with or without VNNI. generic.h says what each function means.
#pragma once
// gcc 12 takes its own "undefined" operands in these intrinsics for a mistake (GCC bug 105593).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#include <cstddef>
#include <cstdint>

namespace ferrule::cpu::FERRULE_ISA::simd {

struct f32x16 {
    __m512 v;
};
struct i32x16 {
    __m512i v;
};
struct u8x64 {
    __m512i v;
};
struct i8x64 {
    __m512i v;
};
struct mask16 {
    __mmask16 v;
};

inline constexpr int kRegisters = 32;
inline constexpr int kTileRows = 6;
inline constexpr int kTailRows = 4;
inline constexpr int kPanelVectors = 2;
inline constexpr int kFloatTileWeights = 4;
inline constexpr int kFloatTileRows = 6;
#if defined(__AVX512VNNI__)
inline constexpr int kFullCodeOffset = 128;
#else
inline constexpr int kFullCodeOffset = 0;
#endif

inline __mmask16 first(size_t n) {
    return static_cast<__mmask16>((1u << n) - 1);
}

// --- f32x16
inline f32x16 set1(float x) {
    return {_mm512_set1_ps(x)};
}
inline f32x16 load(const float* p) {
    return {_mm512_loadu_ps(p)};
}
inline void store(float* p, f32x16 a) {
    _mm512_storeu_ps(p, a.v);
}
inline f32x16 load_partial(const float* p, size_t n) {
    return {_mm512_maskz_loadu_ps(first(n), p)};
}
inline void store_partial(float* p, f32x16 a, size_t n) {
    _mm512_mask_storeu_ps(p, first(n), a.v);
}
inline f32x16 operator+(f32x16 a, f32x16 b) {
    return {_mm512_add_ps(a.v, b.v)};
}
inline f32x16 operator-(f32x16 a, f32x16 b) {
    return {_mm512_sub_ps(a.v, b.v)};
}
inline f32x16 operator*(f32x16 a, f32x16 b) {
    return {_mm512_mul_ps(a.v, b.v)};
}
inline f32x16 operator/(f32x16 a, f32x16 b) {
    return {_mm512_div_ps(a.v, b.v)};
}
inline f32x16 fma(f32x16 a, f32x16 b, f32x16 c) {
    return {_mm512_fmadd_ps(a.v, b.v, c.v)};
}
inline f32x16 max(f32x16 a, f32x16 b) {
    return {_mm512_max_ps(a.v, b.v)};
}
inline f32x16 min(f32x16 a, f32x16 b) {
    return {_mm512_min_ps(a.v, b.v)};
}
inline f32x16 sqrt(f32x16 a) {
    return {_mm512_sqrt_ps(a.v)};
}
inline f32x16 abs(f32x16 a) {
    return {_mm512_andnot_ps(_mm512_set1_ps(-0.0f), a.v)};
}
inline float reduce_add(f32x16 a) {
    const __m256 x8 = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
    const __m128 x4 = _mm_add_ps(_mm256_castps256_ps128(x8), _mm256_extractf128_ps(x8, 1));
    const __m128 x2 = _mm_add_ps(x4, _mm_movehl_ps(x4, x4));
    return _mm_cvtss_f32(_mm_add_ss(x2, _mm_movehdup_ps(x2)));
}
inline float reduce_max(f32x16 a) {
    const __m256 x8 = _mm256_max_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
    const __m128 x4 = _mm_max_ps(_mm256_castps256_ps128(x8), _mm256_extractf128_ps(x8, 1));
    const __m128 x2 = _mm_max_ps(x4, _mm_movehl_ps(x4, x4));
    return _mm_cvtss_f32(_mm_max_ss(x2, _mm_movehdup_ps(x2)));
}

// --- comparisons and selection
inline mask16 less(f32x16 a, f32x16 b) {
    return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)};
}
inline mask16 less_equal(f32x16 a, f32x16 b) {
    return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LE_OQ)};
}
inline mask16 equal(f32x16 a, f32x16 b) {
    return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ)};
}
inline f32x16 select(mask16 m, f32x16 yes, f32x16 no) {
    return {_mm512_mask_blend_ps(m.v, no.v, yes.v)};
}

// --- i32x16
inline i32x16 set1(int32_t x) {
    return {_mm512_set1_epi32(x)};
}
inline i32x16 load(const int32_t* p) {
    return {_mm512_loadu_si512(p)};
}
inline void store(int32_t* p, i32x16 a) {
    _mm512_storeu_si512(p, a.v);
}
inline i32x16 operator+(i32x16 a, i32x16 b) {
    return {_mm512_add_epi32(a.v, b.v)};
}
inline i32x16 operator-(i32x16 a, i32x16 b) {
    return {_mm512_sub_epi32(a.v, b.v)};
}
inline i32x16 operator*(i32x16 a, i32x16 b) {
    return {_mm512_mullo_epi32(a.v, b.v)};
}
inline i32x16 operator&(i32x16 a, i32x16 b) {
    return {_mm512_and_si512(a.v, b.v)};
}
inline i32x16 operator|(i32x16 a, i32x16 b) {
    return {_mm512_or_si512(a.v, b.v)};
}
inline i32x16 operator^(i32x16 a, i32x16 b) {
    return {_mm512_xor_si512(a.v, b.v)};
}
inline i32x16 operator<<(i32x16 a, int n) {
    return {_mm512_slli_epi32(a.v, static_cast<unsigned>(n))};
}
inline i32x16 operator>>(i32x16 a, int n) {
    return {_mm512_srai_epi32(a.v, static_cast<unsigned>(n))};
}
inline i32x16 min(i32x16 a, i32x16 b) {
    return {_mm512_min_epi32(a.v, b.v)};
}
inline i32x16 max(i32x16 a, i32x16 b) {
    return {_mm512_max_epi32(a.v, b.v)};
}

inline int32_t reduce_max(i32x16 a) {
    return _mm512_reduce_max_epi32(a.v);
}

// --- conversions
inline f32x16 to_f32(i32x16 a) {
    return {_mm512_cvtepi32_ps(a.v)};
}
inline i32x16 load_i8(const int8_t* p) {
    return {_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
inline void store_i8(int8_t* p, i32x16 a) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(a.v));
}
inline i32x16 as_i32(f32x16 a) {
    return {_mm512_castps_si512(a.v)};
}
inline f32x16 as_f32(i32x16 a) {
    return {_mm512_castsi512_ps(a.v)};
}
inline i32x16 round_i32(f32x16 a) {
    return {_mm512_cvt_roundps_epi32(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
inline f32x16 load_f16(const uint16_t* p) {
    return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
inline void store_f16(uint16_t* p, f32x16 a) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT));
}
inline f32x16 widen_bf16(__m256i h) {
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16))};
}
inline f32x16 load_bf16(const uint16_t* p) {
    return widen_bf16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline f32x16 load_f16_partial(const uint16_t* p, size_t n) {
    return {_mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first(n), p))};
}
inline f32x16 load_bf16_partial(const uint16_t* p, size_t n) {
    return widen_bf16(_mm256_maskz_loadu_epi16(first(n), p));
}

// --- spreading four numbers over the lanes
inline __m512i lane_numbers() {
    return _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
}
inline f32x16 lanes4(const float* p) {
    return {_mm512_permutexvar_ps(lane_numbers(), _mm512_castps128_ps512(_mm_loadu_ps(p)))};
}
inline i32x16 lanes4(const int32_t* p) {
    const __m128i four = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return {_mm512_permutexvar_epi32(lane_numbers(), _mm512_castsi128_si512(four))};
}
inline f32x16 repeat4(const float* p) {
    return {_mm512_broadcast_f32x4(_mm_loadu_ps(p))};
}
inline void add_lanes(float* result, f32x16 a) {
    const __m128 x = _mm_add_ps(_mm512_castps512_ps128(a.v), _mm512_extractf32x4_ps(a.v, 1));
    _mm_storeu_ps(result, _mm_add_ps(_mm_add_ps(x, _mm512_extractf32x4_ps(a.v, 2)), _mm512_extractf32x4_ps(a.v, 3)));
}
// Of four blocks of `stride` bytes, the words at their fronts lie in the first 64 bytes and in 64 bytes from here,
// which do not reach beyond the blocks.
inline size_t second_pair(size_t stride) {
    return stride < 32 ? 4 * stride - 64 : 2 * stride;
}
inline f32x16 gather_f16(const uint8_t* const p[4], size_t stride) {
    const size_t second = second_pair(stride);
    const short s = static_cast<short>(stride / 2), third = static_cast<short>(32 + (2 * stride - second) / 2);
    const __m128i order = _mm_setr_epi16(0, s, third, static_cast<short>(third + s), 0, 0, 0, 0);
    __m128i row[4];
    for (int r = 0; r < 4; ++r) {
        const __m512i four = _mm512_permutex2var_epi16(_mm512_loadu_si512(p[r]), _mm512_castsi128_si512(order),
                                                       _mm512_loadu_si512(p[r] + second));
        row[r] = _mm512_castsi512_si128(four);
    }
    const __m128i low = _mm_unpacklo_epi16(row[0], row[1]), high = _mm_unpacklo_epi16(row[2], row[3]);
    return {_mm512_cvtph_ps(_mm256_set_m128i(_mm_unpackhi_epi32(low, high), _mm_unpacklo_epi32(low, high)))};
}
inline i32x16 transpose_lanes(i32x16 a) {
    return {_mm512_permutexvar_epi32(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), a.v)};
}
inline i32x16 gather_words(const uint8_t* const p[4], size_t stride) {
    const size_t second = second_pair(stride);
    const int s = static_cast<int>(stride / 4), third = static_cast<int>(16 + (2 * stride - second) / 4);
    const __m512i order = _mm512_castsi128_si512(_mm_setr_epi32(0, s, third, third + s));
    __m128i row[4];
    for (int r = 0; r < 4; ++r) {
        row[r] = _mm512_castsi512_si128(
            _mm512_permutex2var_epi32(_mm512_loadu_si512(p[r]), order, _mm512_loadu_si512(p[r] + second)));
    }
    const __m256i low = _mm256_set_m128i(row[1], row[0]), high = _mm256_set_m128i(row[3], row[2]);
    return transpose_lanes({_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1)});
}
inline short half_at(const uint8_t* p) {
    short h;
    __builtin_memcpy(&h, p, 2);
    return h;
}
inline f32x16 repeat_f16(const uint8_t* const p[4]) {
    const __m128i h = _mm_setr_epi16(half_at(p[0]), half_at(p[1]), half_at(p[2]), half_at(p[3]), 0, 0, 0, 0);
    return {_mm512_broadcast_f32x4(_mm_cvtph_ps(h))};
}
inline f32x16 low_f16(i32x16 a) {
    return {_mm512_cvtph_ps(_mm512_cvtepi32_epi16(a.v))};
}
inline f32x16 high_f16(i32x16 a) {
    return low_f16({_mm512_srli_epi32(a.v, 16)});
}
template <int lane>
inline i32x16 repeat_lane(i32x16 a) {
    return {_mm512_shuffle_i32x4(a.v, a.v, lane * 0x55)};
}
template <int s0, int s1, int s2, int s3>
inline i32x16 shift_right_lanes(i32x16 a) {
    return {_mm512_srlv_epi32(a.v, _mm512_setr_epi32(s0, s0, s0, s0, s1, s1, s1, s1, s2, s2, s2, s2, s3, s3, s3, s3))};
}

// --- bytes
inline u8x64 load(const uint8_t* p) {
    return {_mm512_loadu_si512(p)};
}
inline i8x64 load(const int8_t* p) {
    return {_mm512_loadu_si512(p)};
}
inline void store(uint8_t* p, u8x64 a) {
    _mm512_storeu_si512(p, a.v);
}
inline i32x16 as_i32(u8x64 a) {
    return {a.v};
}
inline u8x64 set1_u8(uint8_t x) {
    return {_mm512_set1_epi8(static_cast<char>(x))};
}
inline u8x64 operator&(u8x64 a, u8x64 b) {
    return {_mm512_and_si512(a.v, b.v)};
}
inline u8x64 operator|(u8x64 a, u8x64 b) {
    return {_mm512_or_si512(a.v, b.v)};
}
inline u8x64 operator^(u8x64 a, u8x64 b) {
    return {_mm512_xor_si512(a.v, b.v)};
}
inline u8x64 operator+(u8x64 a, u8x64 b) {
    return {_mm512_add_epi8(a.v, b.v)};
}
inline u8x64 operator-(u8x64 a, u8x64 b) {
    return {_mm512_sub_epi8(a.v, b.v)};
}
template <int n>
inline u8x64 shift_right(u8x64 a) {
    return {_mm512_and_si512(_mm512_srli_epi16(a.v, n), _mm512_set1_epi8(static_cast<char>(0xff >> n)))};
}
template <int n>
inline u8x64 shift_left(u8x64 a) {
    return {_mm512_and_si512(_mm512_slli_epi16(a.v, n), _mm512_set1_epi8(static_cast<char>(0xff << n)))};
}
inline u8x64 test_bits(u8x64 a, u8x64 bits) {
    return {_mm512_movm_epi8(_mm512_test_epi8_mask(a.v, bits.v))};
}
template <int s0, int s1, int s2, int s3>
inline u8x64 shift_right_lanes(u8x64 a) {
    return {_mm512_srlv_epi64(a.v, _mm512_setr_epi64(s0, s0, s1, s1, s2, s2, s3, s3))};
}
template <int s0, int s1, int s2, int s3>
inline u8x64 shift_lanes(u8x64 a) {
    return {_mm512_rolv_epi64(a.v, _mm512_setr_epi64(s0, s0, s1, s1, s2, s2, s3, s3))};
}
inline long long repeat8(uint8_t b) {
    return static_cast<long long>(b * 0x0101010101010101u);
}
inline u8x64 lanes4_u8(uint8_t b0, uint8_t b1, uint8_t b2, uint8_t b3) {
    const long long l0 = repeat8(b0), l1 = repeat8(b1), l2 = repeat8(b2), l3 = repeat8(b3);
    return {_mm512_setr_epi64(l0, l0, l1, l1, l2, l2, l3, l3)};
}
inline u8x64 spread_bits(uint64_t mask) {
    return {_mm512_movm_epi8(mask)};
}
inline __m128i load16(const uint8_t* p) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}
inline u8x64 set_octets(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f, uint64_t g,
                        uint64_t h) {
    return {_mm512_set_epi64(static_cast<long long>(h), static_cast<long long>(g), static_cast<long long>(f),
                             static_cast<long long>(e), static_cast<long long>(d), static_cast<long long>(c),
                             static_cast<long long>(b), static_cast<long long>(a))};
}
inline u8x64 repeat16(const uint8_t* p) {
    return {_mm512_broadcast_i32x4(load16(p))};
}
inline i8x64 repeat4(const int8_t* p) {
    int32_t four;
    __builtin_memcpy(&four, p, 4);
    return {_mm512_set1_epi32(four)};
}
inline u8x64 lookup16(u8x64 table, u8x64 indices) {
    return {_mm512_shuffle_epi8(table.v, indices.v)};
}
inline u8x64 load4x16(const uint8_t* p0, const uint8_t* p1, const uint8_t* p2, const uint8_t* p3) {
    const __m256i low = _mm256_inserti128_si256(_mm256_castsi128_si256(load16(p0)), load16(p1), 1);
    const __m256i high = _mm256_inserti128_si256(_mm256_castsi128_si256(load16(p2)), load16(p3), 1);
    return {_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1)};
}
inline void store4x16(uint8_t* p0, uint8_t* p1, uint8_t* p2, uint8_t* p3, u8x64 a) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p0), _mm512_castsi512_si128(a.v));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p1), _mm512_extracti32x4_epi32(a.v, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p2), _mm512_extracti32x4_epi32(a.v, 2));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p3), _mm512_extracti32x4_epi32(a.v, 3));
}
template <class V>
inline V even_then_even(V a, V b) {
    return {_mm512_shuffle_i64x2(a.v, b.v, _MM_SHUFFLE(2, 0, 2, 0))};
}
template <class V>
inline V odd_then_odd(V a, V b) {
    return {_mm512_shuffle_i64x2(a.v, b.v, _MM_SHUFFLE(3, 1, 3, 1))};
}
inline void store_lanes(float* p, size_t stride, f32x16 a) {
    _mm_storeu_ps(p, _mm512_castps512_ps128(a.v));
    _mm_storeu_ps(p + stride, _mm512_extractf32x4_ps(a.v, 1));
    _mm_storeu_ps(p + 2 * stride, _mm512_extractf32x4_ps(a.v, 2));
    _mm_storeu_ps(p + 3 * stride, _mm512_extractf32x4_ps(a.v, 3));
}
inline u8x64 even_lanes(u8x64 a, u8x64 b) {
    return {_mm512_permutex2var_epi64(a.v, _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13), b.v)};
}
inline u8x64 odd_lanes(u8x64 a, u8x64 b) {
    return {_mm512_permutex2var_epi64(a.v, _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15), b.v)};
}
inline u8x64 low_halves(u8x64 a, u8x64 b) {
    return {_mm512_unpacklo_epi64(a.v, b.v)};
}
inline u8x64 high_halves(u8x64 a, u8x64 b) {
    return {_mm512_unpackhi_epi64(a.v, b.v)};
}
inline void transpose4x4(u8x64& a, u8x64& b, u8x64& c, u8x64& d) {
    const __m512i ab_low = _mm512_unpacklo_epi32(a.v, b.v), ab_high = _mm512_unpackhi_epi32(a.v, b.v);
    const __m512i cd_low = _mm512_unpacklo_epi32(c.v, d.v), cd_high = _mm512_unpackhi_epi32(c.v, d.v);
    a.v = _mm512_unpacklo_epi64(ab_low, cd_low);
    b.v = _mm512_unpackhi_epi64(ab_low, cd_low);
    c.v = _mm512_unpacklo_epi64(ab_high, cd_high);
    d.v = _mm512_unpackhi_epi64(ab_high, cd_high);
}

// --- integer dot products
#if defined(__AVX512VNNI__)
inline u8x64 full_codes(u8x64 signed_codes) {
    return signed_codes ^ set1_u8(0x80);
}
template <bool full>
inline i32x16 dot4(i32x16 acc, u8x64 codes, i8x64 x) {
    return {_mm512_dpbusd_epi32(acc.v, codes.v, x.v)};
}
#else
inline u8x64 full_codes(u8x64 signed_codes) {
    return signed_codes;
}
template <bool full>
inline i32x16 dot4(i32x16 acc, u8x64 codes, i8x64 x) {
    // Pairs of products are at most 2 * 128 * 127: they cannot saturate 16 bits.
    if constexpr (full) {
        x.v = _mm512_mask_sub_epi8(x.v, _mm512_movepi8_mask(codes.v), _mm512_setzero_si512(), x.v);
        codes.v = _mm512_abs_epi8(codes.v);
    }
    const __m512i pairs = _mm512_maddubs_epi16(codes.v, x.v);
    return {_mm512_add_epi32(acc.v, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)))};
}
#endif
inline void store_lane_sums(int32_t* p, i32x16 a) {
    const __m512i pairs = _mm512_add_epi32(a.v, _mm512_shuffle_epi32(a.v, _MM_PERM_BADC));
    const __m512i sums = _mm512_add_epi32(pairs, _mm512_shuffle_epi32(pairs, _MM_PERM_CDAB));
    const __m512i starts = _mm512_castsi128_si512(_mm_setr_epi32(0, 4, 8, 12));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_castsi512_si128(_mm512_permutexvar_epi32(starts, sums)));
}
inline i32x16 sum4x4(i32x16 a, i32x16 b, i32x16 c, i32x16 d) {
    const __m512i ab = _mm512_add_epi32(_mm512_unpacklo_epi32(a.v, b.v), _mm512_unpackhi_epi32(a.v, b.v));
    const __m512i cd = _mm512_add_epi32(_mm512_unpacklo_epi32(c.v, d.v), _mm512_unpackhi_epi32(c.v, d.v));
    return {_mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd))};
}

// --- bfloat16
#if defined(__AVX512BF16__)
// As in simd.h, but subnormal numbers become zero.
inline i32x16 to_bf16(f32x16 a, f32x16 b) {
    return {__builtin_bit_cast(__m512i, _mm512_cvtne2ps_pbh(b.v, a.v))};
}
// load4x16 of f16 values, rounded to bfloat16.
inline u8x64 load4x8_f16(const uint8_t* p0, const uint8_t* p1, const uint8_t* p2, const uint8_t* p3) {
    const __m512 low = _mm512_cvtph_ps(_mm256_set_m128i(load16(p1), load16(p0)));
    const __m512 high = _mm512_cvtph_ps(_mm256_set_m128i(load16(p3), load16(p2)));
    return {__builtin_bit_cast(__m512i, _mm512_cvtne2ps_pbh(high, low))};
}
// fma(lower, lower, fma(upper, upper, sum)) of pairs of bfloat16; subnormal numbers count as zero.
inline f32x16 dot2(f32x16 sum, i32x16 a, i32x16 b) {
    return {_mm512_dpbf16_ps(sum.v, __builtin_bit_cast(__m512bh, a.v), __builtin_bit_cast(__m512bh, b.v))};
}
#endif

}  // namespace ferrule::cpu::FERRULE_ISA::simd
