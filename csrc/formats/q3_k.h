// Q3_K: 256 values in 16 groups of 16, value = scale * (scale of the group - 32) * (code - 4). The low two bits of
// codes are stored as in Q2_K; the third bit of value i of the 32-value run n is bit n of high[i]. Of the 6-bit group
// scales, bytes 0-7 hold the low four bits (scale g in the low nibble of byte g, scale g + 8 in the high one), bytes
// 8-11 the upper two (scales g, g + 4, g + 8, g + 12 in byte 8 + g).
#pragma once
#include "float16.h"

namespace ferrule::formats {

struct Q3_K {
    enum : uint32_t { kElements = 256, kGgmlType = 11 };
    uint8_t high[32];
    uint8_t low[64];
    uint8_t scales[12];
    uint16_t scale;  // f16
};
static_assert(sizeof(Q3_K) == 110);

#ifndef __METAL_VERSION__
static inline void decode(const Q3_K& block, float* out) {
    const float scale = f16_to_f32(block.scale);
    for (int i = 0; i < 256; ++i) {
        const int half = i / 128, j = i % 128, g = i / 16;
        const int low = (block.low[32 * half + j % 32] >> (j / 32 * 2)) & 3;
        const int high = (block.high[i % 32] >> (i / 32)) & 1;
        const int scale_low = (block.scales[g % 8] >> (g / 8 * 4)) & 15;
        const int scale_high = (block.scales[8 + g % 4] >> (g / 4 * 2)) & 3;
        const float group_scale = scale * static_cast<float>((scale_low | scale_high << 4) - 32);
        out[i] = group_scale * static_cast<float>((low | high << 2) - 4);
    }
}
#endif

}  // namespace ferrule::formats
