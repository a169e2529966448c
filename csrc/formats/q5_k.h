// Q5_K: as Q4_K, with the fifth bit of value i of group g in bit g of high[i].
#pragma once
#include "float16.h"
#include "k_scales.h"

namespace ferrule::formats {

struct Q5_K {
    enum : uint32_t { kElements = 256, kGgmlType = 13 };
    uint16_t scale;    // f16
    uint16_t minimum;  // f16
    KScales scales;
    uint8_t high[32];
    uint8_t low[128];
};
static_assert(sizeof(Q5_K) == 176);

#ifndef __METAL_VERSION__
static inline void decode(const Q5_K& block, float* out) {
    const float scale = f16_to_f32(block.scale), minimum = f16_to_f32(block.minimum);
    for (int g = 0; g < 8; ++g) {
        const float group_scale = scale * static_cast<float>(k_scale(block.scales, g));
        const float group_minimum = minimum * static_cast<float>(k_minimum(block.scales, g));
        for (int i = 0; i < 32; ++i) {
            const int low = (block.low[g / 2 * 32 + i] >> (g % 2 * 4)) & 15;
            const int high = (block.high[i] >> g) & 1;
            out[32 * g + i] = group_scale * static_cast<float>(low | high << 4) - group_minimum;
        }
    }
}
#endif

}  // namespace ferrule::formats
