// Q6_K: 256 values in 16 groups of 16, value = scale * scales[g] * (code - 32). Each half of 128 values has 64 bytes of
// low: the low nibbles are values 0-63, the high ones 64-127; and 32 bytes of high: two bits each of values i, i + 32,
// i + 64, i + 96.
#pragma once
#include "float16.h"

namespace ferrule::formats {

struct Q6_K {
    enum : uint32_t { kElements = 256, kGgmlType = 14 };
    uint8_t low[128];
    uint8_t high[64];
    int8_t scales[16];
    uint16_t scale;  // f16
};
static_assert(sizeof(Q6_K) == 210);

#ifndef __METAL_VERSION__
static inline void decode(const Q6_K& block, float* out) {
    const float scale = f16_to_f32(block.scale);
    for (int i = 0; i < 256; ++i) {
        const int half = i / 128, j = i % 128;
        const int low = (block.low[64 * half + j % 64] >> (j / 64 * 4)) & 15;
        const int high = (block.high[32 * half + j % 32] >> (j / 32 * 2)) & 3;
        const float group_scale = scale * static_cast<float>(block.scales[i / 16]);
        out[i] = group_scale * static_cast<float>((low | high << 4) - 32);
    }
}
#endif

}  // namespace ferrule::formats
