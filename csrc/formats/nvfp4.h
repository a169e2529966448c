// NVFP4: 64 values in 4 groups of 16, value = scales[g] / 2 * doubled FP4 value; scales are unsigned E4M3 (exponent
// bias 7), in which 0x7f is taken for 0. Byte i of a group's 8 holds codes i (low nibble) and i + 8.
#pragma once
#include "float16.h"
#include "fp4_values.h"

namespace ferrule::formats {

struct NVFP4 {
    enum : uint32_t { kElements = 64, kGgmlType = 40 };
    uint8_t scales[4];
    uint8_t codes[32];
};
static_assert(sizeof(NVFP4) == 36);

#ifndef __METAL_VERSION__
// Half of the E4M3 number (without its sign bit, which is not used).
static inline float nvfp4_scale(uint8_t bits) {
    const int exponent = (bits >> 3) & 15, mantissa = bits & 7;
    if (bits == 0x7f) return 0.0f;
    if (exponent == 0) return static_cast<float>(mantissa) * 0x1p-10f;
    return __builtin_bit_cast(float, static_cast<uint32_t>(exponent + 119) << 23 | static_cast<uint32_t>(mantissa)
                                                                                       << 20);
}

static inline void decode(const NVFP4& block, float* out) {
    for (int g = 0; g < 4; ++g) {
        const float scale = nvfp4_scale(block.scales[g]);
        for (int i = 0; i < 8; ++i) {
            const uint8_t codes = block.codes[8 * g + i];
            out[16 * g + i] = scale * static_cast<float>(kFp4Values[codes & 15]);
            out[16 * g + i + 8] = scale * static_cast<float>(kFp4Values[codes >> 4]);
        }
    }
}
#endif

}  // namespace ferrule::formats
