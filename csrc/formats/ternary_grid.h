// What IQ1_S and IQ1_M share: 8 groups of 32 values, each four times eight ternary values from a codebook, shifted by
// an eighth, and a scale per group or half group.
#pragma once
#ifndef __METAL_VERSION__
#include <stdint.h>

namespace ferrule::formats {

template <class Block>
static inline void decode_ternary_grid(const Block& block, float* out) {
    for (int g = 0; g < 8; ++g) {
        for (int n = 0; n < 4; ++n) {
            const float scale = unit(block) * step(block, g, n / 2),
                        shift = shifts_down(block, g, n) ? -0.125f : 0.125f;
            const uint64_t eight = entry(block, g, n);
            for (int i = 0; i < 8; ++i) {
                const int digit = static_cast<int>((eight >> (8 * i)) & 255) - 1;
                out[32 * g + 8 * n + i] = scale * (static_cast<float>(digit) + shift);
            }
        }
    }
}

}  // namespace ferrule::formats
#endif
