// TQ2_0: 256 values, value = scale * (code - 1); codes as in Q2_K.
#pragma once
#include "float16.h"

namespace ferrule::formats {

struct TQ2_0 {
    enum : uint32_t { kElements = 256, kGgmlType = 35 };
    uint8_t codes[64];
    uint16_t scale;  // f16
};
static_assert(sizeof(TQ2_0) == 66);

#ifndef __METAL_VERSION__
static inline void decode(const TQ2_0& block, float* out) {
    const float scale = f16_to_f32(block.scale);
    for (int i = 0; i < 256; ++i) {
        const int half = i / 128, j = i % 128;
        const int code = (block.codes[32 * half + j % 32] >> (j / 32 * 2)) & 3;
        out[i] = scale * static_cast<float>(code - 1);
    }
}
#endif

}  // namespace ferrule::formats
