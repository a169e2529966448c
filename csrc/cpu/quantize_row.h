// One row of activations as q8 (params/q8_row.h): how kernels read it and how it is made.
#pragma once
#include "../params/q8_row.h"
#include "simd/simd.h"

namespace ferrule::cpu::FERRULE_ISA {

struct Q8Row {
    const int8_t* codes;
    const float* scale;
    const float* scaled_sum;
    const int32_t* sum16;
};

inline Q8Row q8_row_at(const uint8_t* row, uint32_t k) {
    return {reinterpret_cast<const int8_t*>(row), reinterpret_cast<const float*>(row + q8_row::scale_offset(k)),
            reinterpret_cast<const float*>(row + q8_row::scaled_sum_offset(k)),
            reinterpret_cast<const int32_t*>(row + q8_row::sum16_offset(k))};
}

inline simd::i32x16 q8_codes(simd::f32x16 x, simd::f32x16 scale) {
    using namespace simd;
    return round_i32(max(min(x / scale, set1(127.0f)), set1(-127.0f)));  // beyond 127 only where scale is subnormal
}

// The kChunk codes from `chunk` on of a row of k values: x[0, n), then zeros. A group that holds NaN or infinity gets
// that as its scale, so that its products are not finite.
inline void quantize_chunk(const float* x, uint32_t n, uint32_t chunk, uint32_t k, uint8_t* row) {
    using namespace simd;
    int8_t* codes = reinterpret_cast<int8_t*>(row) + chunk;
    float* scales = reinterpret_cast<float*>(row + q8_row::scale_offset(k)) + chunk / q8_row::kGroup;
    float* scaled_sums = reinterpret_cast<float*>(row + q8_row::scaled_sum_offset(k)) + chunk / q8_row::kGroup;
    int32_t* sums = reinterpret_cast<int32_t*>(row + q8_row::sum16_offset(k)) + chunk / 16;

    for (uint32_t i = 0; i < q8_row::kChunk; i += q8_row::kGroup) {
        const uint32_t left = i < n ? n - i : 0;
        const f32x16 a = left >= 16 ? load(x + i) : load_partial(x + i, left);
        const f32x16 b = left >= 32 ? load(x + i + 16) : load_partial(x + i + 16, left > 16 ? left - 16 : 0);
        // As integers, magnitudes are ordered like floats, with NaN above infinity.
        const int32_t magnitude = reduce_max(max(as_i32(abs(a)), as_i32(abs(b))));
        const float scale = __builtin_bit_cast(float, magnitude) / 127.0f;
        const f32x16 divisor = set1(scale == 0.0f ? 1.0f : scale);
        store_i8(codes + i, q8_codes(a, divisor));
        store_i8(codes + i + 16, q8_codes(b, divisor));
        scales[i / q8_row::kGroup] = scale;
    }
    const u8x64 ones = set1_u8(1);
    store_lane_sums(sums, dot4<false>(zero_i32(), ones, load(codes)));
    store_lane_sums(sums + 4, dot4<false>(zero_i32(), ones, load(codes + 64)));
    for (uint32_t g = 0; g < 4; ++g) scaled_sums[g] = scales[g] * static_cast<float>(sums[2 * g] + sums[2 * g + 1]);
}

// x: f32 [k] -> row.
inline void quantize_row(const float* x, uint32_t k, uint8_t* row) {
    for (uint32_t chunk = 0; chunk < k; chunk += q8_row::kChunk) {
        const uint32_t n = k - chunk < q8_row::kChunk ? k - chunk : q8_row::kChunk;
        quantize_chunk(x + chunk, n, chunk, k, row);
    }
}

}  // namespace ferrule::cpu::FERRULE_ISA
