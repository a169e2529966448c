// IQ4_XS: 256 values in 8 groups of 32, value = scale * (scale of the group - 32) * one of 16 values. A group's codes
// are as in Q4_0. The low four bits of its scale are nibble g of scales_low, the upper two bits 2g and 2g + 1 of
// scales_high.
#pragma once
#include "float16.h"
#include "iq4_values.h"

namespace ferrule::formats {

struct IQ4_XS {
    enum : uint32_t { kElements = 256, kGgmlType = 23 };
    uint16_t scale;  // f16
    uint16_t scales_high;
    uint8_t scales_low[4];
    uint8_t codes[128];
};
static_assert(sizeof(IQ4_XS) == 136);

#ifndef __METAL_VERSION__
static inline void decode(const IQ4_XS& block, float* out) {
    const float scale = f16_to_f32(block.scale);
    for (int g = 0; g < 8; ++g) {
        const int low = (block.scales_low[g / 2] >> (g % 2 * 4)) & 15, high = (block.scales_high >> (2 * g)) & 3;
        const float group_scale = scale * static_cast<float>((low | high << 4) - 32);
        for (int i = 0; i < 16; ++i) {
            const uint8_t codes = block.codes[16 * g + i];
            out[32 * g + i] = group_scale * static_cast<float>(kIq4Values[codes & 15]);
            out[32 * g + i + 16] = group_scale * static_cast<float>(kIq4Values[codes >> 4]);
        }
    }
}
#endif

}  // namespace ferrule::formats
