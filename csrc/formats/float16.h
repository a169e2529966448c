// Scalar conversions between float32 and the 16-bit floats that weights are stored in.
// Metal has them, and integers of fixed width, built in.
#pragma once
#ifndef __METAL_VERSION__
#include <stdint.h>

namespace ferrule::formats {

static inline float f16_to_f32(uint16_t h) {
    const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16, rest = h & 0x7fffu;
    if (rest < 0x0400u) {  // zero and subnormals: rest * 2^-24, exact
        const float magnitude = static_cast<float>(rest) * 0x1p-24f;
        return __builtin_bit_cast(float, __builtin_bit_cast(uint32_t, magnitude) | sign);
    }
    const uint32_t exponent_shift = rest >= 0x7c00u ? 2 * (112u << 23) : 112u << 23;
    return __builtin_bit_cast(float, sign | ((rest << 13) + exponent_shift));
}

// Rounds to nearest even; overflow gives infinity; NaN stays NaN.
static inline uint16_t f32_to_f16(float f) {
    const uint32_t bits = __builtin_bit_cast(uint32_t, f), sign = (bits >> 16) & 0x8000u, rest = bits & 0x7fffffffu;
    if (rest > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
    if (rest >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);
    if (rest < 0x38800000u) {  // a subnormal result: adding 0.5 leaves the rounded multiple of 2^-24 in the low bits
        const float shifted = __builtin_bit_cast(float, rest) + 0.5f;
        return static_cast<uint16_t>(sign | (__builtin_bit_cast(uint32_t, shifted) - 0x3f000000u));
    }
    return static_cast<uint16_t>(sign | ((rest - (112u << 23) + 0x0fffu + ((rest >> 13) & 1)) >> 13));
}

static inline float bf16_to_f32(uint16_t h) {
    return __builtin_bit_cast(float, static_cast<uint32_t>(h) << 16);
}

}  // namespace ferrule::formats
#endif
