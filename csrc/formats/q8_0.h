// Q8_0: 32 values, value = scale * code.
#pragma once
#include "float16.h"

namespace ferrule::formats {

struct Q8_0 {
    enum : uint32_t { kElements = 32, kGgmlType = 8 };
    uint16_t scale;  // f16
    int8_t codes[32];
};
static_assert(sizeof(Q8_0) == 34);

#ifndef __METAL_VERSION__
static inline void decode(const Q8_0& block, float* out) {
    const float scale = f16_to_f32(block.scale);
    for (int i = 0; i < 32; ++i) out[i] = scale * static_cast<float>(block.codes[i]);
}
#endif

}  // namespace ferrule::formats
