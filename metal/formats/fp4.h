// MXFP4, NVFP4: nibbles are FP4 numbers.
#pragma once
#include "../../csrc/formats/mxfp4.h"
#include "../../csrc/formats/nvfp4.h"
#include "decoded.h"

namespace ferrule {

// 2^(exponent - 128).
inline float mxfp4_scale(uint exponent) {
    return metal::as_type<float>(exponent < 2 ? 0x00200000u << exponent : (exponent - 1) << 23);
}

template <>
struct WeightFormat<MXFP4> : DecodedFormat<MXFP4> {
    static void decode(device const MXFP4* row, uint first, uint, thread float* values) {
        device const MXFP4& block = row[first / 32];
        const float scale = mxfp4_scale(block.exponent);
        const uint shift = first % 32 / 16 * 4;
        for (uint i = 0; i < 16; ++i) values[i] = scale * float(kFp4Values[block.codes[i] >> shift & 15]);
    }
};

// Half of an E4M3 number without sign; 0x7f is taken for 0.
inline float nvfp4_scale(uint bits) {
    const uint exponent = bits >> 3 & 15, mantissa = bits & 7;
    if (bits == 0x7F) return 0.0f;
    if (exponent == 0) return float(mantissa) / 1024.0f;
    return metal::as_type<float>((exponent + 119) << 23 | mantissa << 20);
}

template <>
struct WeightFormat<NVFP4> : DecodedFormat<NVFP4> {
    static void decode(device const NVFP4* row, uint first, uint, thread float* values) {
        device const NVFP4& block = row[first / 64];
        const uint g = first % 64 / 16;
        const float scale = nvfp4_scale(block.scales[g]);
        for (uint i = 0; i < 8; ++i) {
            const uint codes = block.codes[8 * g + i];
            values[i] = scale * float(kFp4Values[codes & 15]);
            values[i + 8] = scale * float(kFp4Values[codes >> 4]);
        }
    }
};

}  // namespace ferrule
