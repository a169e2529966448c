// Q4_K: 256 values in 8 groups of 32, value = scale * scales[g] * code - minimum * minimums[g].
// Each 32 bytes of codes hold two groups: the low nibbles, then the high ones.
#pragma once
#include "float16.h"
#include "k_scales.h"

namespace ferrule::formats {

struct Q4_K {
    enum : uint32_t { kElements = 256, kGgmlType = 12 };
    uint16_t scale;    // f16
    uint16_t minimum;  // f16
    KScales scales;
    uint8_t codes[128];
};
static_assert(sizeof(Q4_K) == 144);

#ifndef __METAL_VERSION__
static inline void decode(const Q4_K& block, float* out) {
    const float scale = f16_to_f32(block.scale), minimum = f16_to_f32(block.minimum);
    for (int g = 0; g < 8; ++g) {
        const float group_scale = scale * static_cast<float>(k_scale(block.scales, g));
        const float group_minimum = minimum * static_cast<float>(k_minimum(block.scales, g));
        for (int i = 0; i < 32; ++i) {
            const int code = (block.codes[g / 2 * 32 + i] >> (g % 2 * 4)) & 15;
            out[32 * g + i] = group_scale * static_cast<float>(code) - group_minimum;
        }
    }
}
#endif

}  // namespace ferrule::formats
