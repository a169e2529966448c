// TQ1_0: 256 values, value = scale * (digit - 1). A byte b stands for the base-3 fraction b / 256; its n-th digit after
// the point belongs to
//   codes[i], i < 32: value 32 n + i, n < 5;  codes[32 + i], i < 16: value 160 + 16 n + i;  rest[i]: value 240 + 4 n +
//   i
#pragma once
#include "float16.h"

namespace ferrule::formats {

struct TQ1_0 {
    enum : uint32_t { kElements = 256, kGgmlType = 34 };
    uint8_t codes[48];
    uint8_t rest[4];
    uint16_t scale;  // f16
};
static_assert(sizeof(TQ1_0) == 54);

#ifndef __METAL_VERSION__
static inline uint8_t ternary_digit(uint8_t fraction, int n) {
    constexpr uint8_t powers[5] = {1, 3, 9, 27, 81};
    const uint8_t shifted = static_cast<uint8_t>(fraction * powers[n]);
    return static_cast<uint8_t>((shifted * 3) >> 8);
}

// The digit of value i.
static inline uint8_t code_at(const TQ1_0& block, int i) {
    if (i < 160) return ternary_digit(block.codes[i % 32], i / 32);
    if (i < 240) return ternary_digit(block.codes[32 + i % 16], (i - 160) / 16);
    return ternary_digit(block.rest[i % 4], (i - 240) / 4);
}

static inline void decode(const TQ1_0& block, float* out) {
    const float scale = f16_to_f32(block.scale);
    for (int i = 0; i < 256; ++i) out[i] = scale * static_cast<float>(code_at(block, i) - 1);
}
#endif

}  // namespace ferrule::formats
