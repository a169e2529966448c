// IQ4_NL: 32 values, value = scale * one of 16 values; codes as in Q4_0.
#pragma once
#include "float16.h"
#include "iq4_values.h"

namespace ferrule::formats {

struct IQ4_NL {
    enum : uint32_t { kElements = 32, kGgmlType = 20 };
    uint16_t scale;  // f16
    uint8_t codes[16];
};
static_assert(sizeof(IQ4_NL) == 18);

#ifndef __METAL_VERSION__
static inline void decode(const IQ4_NL& block, float* out) {
    const float scale = f16_to_f32(block.scale);
    for (int i = 0; i < 16; ++i) {
        out[i] = scale * static_cast<float>(kIq4Values[block.codes[i] & 15]);
        out[i + 16] = scale * static_cast<float>(kIq4Values[block.codes[i] >> 4]);
    }
}
#endif

}  // namespace ferrule::formats
