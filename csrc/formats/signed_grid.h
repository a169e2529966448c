// What IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS and IQ3_S share: 8 groups of 32 values, each four times eight magnitudes from a
// codebook with signs, and a scale per group or half group.
#pragma once
#ifndef __METAL_VERSION__
#include <stdint.h>

namespace ferrule::formats {

template <class Block>
static inline void decode_signed_grid(const Block& block, float* out) {
    for (int g = 0; g < 8; ++g) {
        for (int n = 0; n < 4; ++n) {
            const float scale = unit(block) * step(block, g, n / 2);
            const uint64_t eight = magnitudes(block, g, n);
            const uint32_t negative = signs(block, g) >> (8 * n);
            for (int i = 0; i < 8; ++i) {
                const float value = scale * static_cast<float>((eight >> (8 * i)) & 255);
                out[32 * g + 8 * n + i] = (negative >> i) & 1 ? -value : value;
            }
        }
    }
}

}  // namespace ferrule::formats
#endif
