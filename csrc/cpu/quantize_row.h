// One row of quantised activations (params/quantized_row.h): how kernels read it and how it is made.
#pragma once
#include "../params/quantized_row.h"
#include "simd/simd.h"

namespace ferrule::cpu::FERRULE_ISA {

struct QuantizedRow {
    const int8_t* high;
    const int8_t* low;  // null: one plane
    const float* scale;
    const float* scaled_sum;
    const int32_t* sum16;
};

inline QuantizedRow quantized_row_at(const uint8_t* row, uint32_t k, uint32_t planes) {
    const int8_t* codes = reinterpret_cast<const int8_t*>(row);
    return {codes, planes == 2 ? codes + quantized_row::low_offset(k) : nullptr,
            reinterpret_cast<const float*>(row + quantized_row::scale_offset(k, planes)),
            reinterpret_cast<const float*>(row + quantized_row::scaled_sum_offset(k, planes)),
            reinterpret_cast<const int32_t*>(row + quantized_row::sum16_offset(k, planes))};
}

// Stores 16 codes, of two planes apart.
inline void store_codes(int8_t* high, int8_t* low, simd::f32x16 x, simd::f32x16 scale, float max_code) {
    using namespace simd;
    const f32x16 limit = set1(max_code);
    const i32x16 codes = round_i32(max(min(x / scale, limit), set1(0.0f) - limit));  // beyond where scale is subnormal
    if (low == nullptr) return store_i8(high, codes);
    const i32x16 upper = (codes + set1(64)) >> 7;
    store_i8(high, upper);
    store_i8(low, codes - (upper << 7));
}

// The kChunk values from `chunk` on of a row without planes: x[0, n), then zeros.
inline void round_chunk(const float* x, uint32_t n, uint32_t chunk, uint8_t* row) {
    using namespace simd;
    int32_t* pairs = reinterpret_cast<int32_t*>(row) + chunk / 2;
    for (uint32_t i = 0; i < quantized_row::kChunk; i += 32) {
        const uint32_t left = i < n ? n - i : 0;
        const f32x16 a = left >= 16 ? load(x + i) : load_partial(x + i, left);
        const f32x16 b = left >= 32 ? load(x + i + 16) : load_partial(x + i + 16, left > 16 ? left - 16 : 0);
        store(pairs + i / 2, to_bf16(a, b));
    }
}

// The kChunk codes from `chunk` on of a row of k values: x[0, n), then zeros. A group that holds NaN or infinity gets
// that as its scale, so that its products are not finite.
inline void quantize_chunk(const float* x, uint32_t n, uint32_t chunk, uint32_t k, uint32_t planes, uint8_t* row) {
    using namespace simd;
    if (planes == 0) return round_chunk(x, n, chunk, row);
    int8_t* high = reinterpret_cast<int8_t*>(row) + chunk;
    int8_t* low = planes == 2 ? high + quantized_row::low_offset(k) : nullptr;
    float* scales =
        reinterpret_cast<float*>(row + quantized_row::scale_offset(k, planes)) + chunk / quantized_row::kGroup;
    float* scaled_sums =
        reinterpret_cast<float*>(row + quantized_row::scaled_sum_offset(k, planes)) + chunk / quantized_row::kGroup;
    int32_t* sums = reinterpret_cast<int32_t*>(row + quantized_row::sum16_offset(k, planes)) + chunk / 16;

    const float max_code = static_cast<float>(quantized_row::max_code(planes));
    for (uint32_t i = 0; i < quantized_row::kChunk; i += quantized_row::kGroup) {
        const uint32_t left = i < n ? n - i : 0;
        const f32x16 a = left >= 16 ? load(x + i) : load_partial(x + i, left);
        const f32x16 b = left >= 32 ? load(x + i + 16) : load_partial(x + i + 16, left > 16 ? left - 16 : 0);
        // As integers, magnitudes are ordered like floats, with NaN above infinity.
        const int32_t magnitude = reduce_max(max(as_i32(abs(a)), as_i32(abs(b))));
        const float scale = __builtin_bit_cast(float, magnitude) / max_code;
        const f32x16 divisor = set1(scale == 0.0f ? 1.0f : scale);
        const uint32_t first = i / 2, second = quantized_row::kChunk / 2 + first;
        store_codes(high + first, low == nullptr ? low : low + first, a, divisor, max_code);
        store_codes(high + second, low == nullptr ? low : low + second, b, divisor, max_code);
        scales[i / quantized_row::kGroup] = scale;
    }
    const u8x64 ones = set1_u8(1);
    for (uint32_t i = 0; i < 2; ++i) {
        i32x16 sum = dot4<false>(zero_i32(), ones, load(high + 64 * i));
        if (low != nullptr) sum = dot4<false>(sum << 7, ones, load(low + 64 * i));
        store_lane_sums(sums + 4 * i, sum);
    }
    for (uint32_t g = 0; g < 4; ++g) scaled_sums[g] = scales[g] * static_cast<float>(sums[g] + sums[g + 4]);
}

// x: f32 [k] -> row.
inline void quantize_row(const float* x, uint32_t k, uint32_t planes, uint8_t* row) {
    for (uint32_t chunk = 0; chunk < k; chunk += quantized_row::kChunk) {
        const uint32_t n = k - chunk < quantized_row::kChunk ? k - chunk : quantized_row::kChunk;
        quantize_chunk(x + chunk, n, chunk, k, planes, row);
    }
}

}  // namespace ferrule::cpu::FERRULE_ISA
