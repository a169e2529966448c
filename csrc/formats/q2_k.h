// Q2_K: 256 values in 16 groups of 16, value = scale * (scales[g] & 15) * code - minimum * (scales[g] >> 4).
// Each half of 128 values has 32 bytes of codes: two bits each of values i, i + 32, i + 64, i + 96.
#pragma once
#include "float16.h"

namespace ferrule::formats {

struct Q2_K {
    enum : uint32_t { kElements = 256, kGgmlType = 10 };
    uint8_t scales[16];
    uint8_t codes[64];
    uint16_t scale;    // f16
    uint16_t minimum;  // f16
};
static_assert(sizeof(Q2_K) == 84);

#ifndef __METAL_VERSION__
static inline void decode(const Q2_K& block, float* out) {
    const float scale = f16_to_f32(block.scale), minimum = f16_to_f32(block.minimum);
    for (int i = 0; i < 256; ++i) {
        const int half = i / 128, j = i % 128;
        const int code = (block.codes[32 * half + j % 32] >> (j / 32 * 2)) & 3;
        const float group_scale = scale * static_cast<float>(block.scales[i / 16] & 15);
        const float group_minimum = minimum * static_cast<float>(block.scales[i / 16] >> 4);
        out[i] = group_scale * static_cast<float>(code) - group_minimum;
    }
}
#endif

}  // namespace ferrule::formats
