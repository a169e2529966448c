// Q5_0: 32 values, value = scale * (code - 16). Byte i of low holds the low four bits of codes i and i + 16, bit i of
// high (little endian) the fifth bit of code i.
#pragma once
#include "float16.h"

namespace ferrule::formats {

struct Q5_0 {
    enum : uint32_t { kElements = 32, kGgmlType = 6 };
    uint16_t scale;  // f16
    uint8_t high[4];
    uint8_t low[16];
};
static_assert(sizeof(Q5_0) == 22);

#ifndef __METAL_VERSION__
static inline void decode(const Q5_0& block, float* out) {
    const float scale = f16_to_f32(block.scale);
    for (int i = 0; i < 32; ++i) {
        const int low = i < 16 ? block.low[i] & 15 : block.low[i - 16] >> 4;
        const int high = (block.high[i / 8] >> (i % 8)) & 1;
        out[i] = scale * static_cast<float>((low | high << 4) - 16);
    }
}
#endif

}  // namespace ferrule::formats
