// MXFP4: 32 values, value = 2^(exponent - 128) * doubled FP4 value; codes as in Q4_0.
#pragma once
#include "float16.h"
#include "fp4_values.h"

namespace ferrule::formats {

struct MXFP4 {
    enum : uint32_t { kElements = 32, kGgmlType = 39 };
    uint8_t exponent;
    uint8_t codes[16];
};
static_assert(sizeof(MXFP4) == 17);

#ifndef __METAL_VERSION__
// 2^(exponent - 128).
static inline float mxfp4_scale(uint8_t exponent) {
    const uint32_t bits = exponent < 2 ? 0x00200000u << exponent : static_cast<uint32_t>(exponent - 1) << 23;
    return __builtin_bit_cast(float, bits);
}

static inline void decode(const MXFP4& block, float* out) {
    const float scale = mxfp4_scale(block.exponent);
    for (int i = 0; i < 16; ++i) {
        out[i] = scale * static_cast<float>(kFp4Values[block.codes[i] & 15]);
        out[i + 16] = scale * static_cast<float>(kFp4Values[block.codes[i] >> 4]);
    }
}
#endif

}  // namespace ferrule::formats
