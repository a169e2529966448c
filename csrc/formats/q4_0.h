// Q4_0: 32 values, value = scale * (code - 8); byte i holds codes i (low nibble) and i + 16.
#pragma once
#include "float16.h"

namespace ferrule::formats {

struct Q4_0 {
    enum : uint32_t { kElements = 32, kGgmlType = 2 };
    uint16_t scale;  // f16
    uint8_t codes[16];
};
static_assert(sizeof(Q4_0) == 18);

#ifndef __METAL_VERSION__
static inline void decode(const Q4_0& block, float* out) {
    const float scale = f16_to_f32(block.scale);
    for (int i = 0; i < 16; ++i) {
        out[i] = scale * static_cast<float>((block.codes[i] & 15) - 8);
        out[i + 16] = scale * static_cast<float>((block.codes[i] >> 4) - 8);
    }
}
#endif

}  // namespace ferrule::formats
