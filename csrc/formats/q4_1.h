// Q4_1: 32 values, value = scale * code + minimum; byte i holds codes i (low nibble) and i + 16.
#pragma once
#include "float16.h"

namespace ferrule::formats {

struct Q4_1 {
    enum : uint32_t { kElements = 32, kGgmlType = 3 };
    uint16_t scale;    // f16
    uint16_t minimum;  // f16
    uint8_t codes[16];
};
static_assert(sizeof(Q4_1) == 20);

#ifndef __METAL_VERSION__
static inline void decode(const Q4_1& block, float* out) {
    const float scale = f16_to_f32(block.scale), minimum = f16_to_f32(block.minimum);
    for (int i = 0; i < 16; ++i) {
        out[i] = scale * static_cast<float>(block.codes[i] & 15) + minimum;
        out[i + 16] = scale * static_cast<float>(block.codes[i] >> 4) + minimum;
    }
}
#endif

}  // namespace ferrule::formats
