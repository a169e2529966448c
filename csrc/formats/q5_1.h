// Q5_1: 32 values, value = scale * code + minimum; codes as in Q5_0.
#pragma once
#include "float16.h"

namespace ferrule::formats {

struct Q5_1 {
    enum : uint32_t { kElements = 32, kGgmlType = 7 };
    uint16_t scale;    // f16
    uint16_t minimum;  // f16
    uint8_t high[4];
    uint8_t low[16];
};
static_assert(sizeof(Q5_1) == 24);

#ifndef __METAL_VERSION__
static inline void decode(const Q5_1& block, float* out) {
    const float scale = f16_to_f32(block.scale), minimum = f16_to_f32(block.minimum);
    for (int i = 0; i < 32; ++i) {
        const int low = i < 16 ? block.low[i] & 15 : block.low[i - 16] >> 4;
        const int high = (block.high[i / 8] >> (i % 8)) & 1;
        out[i] = scale * static_cast<float>(low | high << 4) + minimum;
    }
}
#endif

}  // namespace ferrule::formats
