// IQ2_XXS: 256 values in 8 groups of 32, each four entries of a codebook of 256 with eight values, signs and a scale.
// A group is two words: four entry numbers; and four times 7 sign bits, below 4 bits of scale.
// value = scale * (0.5 + group scale) / 4 * sign * magnitude
#pragma once
#include "float16.h"
#include "grids.h"
#include "signed_grid.h"

namespace ferrule::formats {

struct IQ2_XXS {
    enum : uint32_t { kElements = 256, kGgmlType = 16 };
    uint16_t scale;  // f16
    uint16_t groups[8][4];
};
static_assert(sizeof(IQ2_XXS) == 66);

#ifndef __METAL_VERSION__
static inline uint32_t second_word(const IQ2_XXS& block, int g) {
    return block.groups[g][2] | static_cast<uint32_t>(block.groups[g][3]) << 16;
}

// Magnitudes of the n-th eight values of group g.
static inline uint64_t magnitudes(const IQ2_XXS& block, int g, int n) {
    return kIq2XxsGrid.entries[(block.groups[g][n / 2] >> (n % 2 * 8)) & 255];
}

// Bit 8 n + i: the i-th of the n-th eight values of group g is negative.
static inline uint32_t signs(const IQ2_XXS& block, int g) {
    return four_times_eight_signs(second_word(block, g) & 0x0fffffff);
}

// What group scales are multiples of.
static inline float unit(const IQ2_XXS& block) {
    return f16_to_f32(block.scale) * 0.25f;
}

// Of group g: its scale in units.
static inline float step(const IQ2_XXS& block, int g, int) {
    return 0.5f + static_cast<float>(second_word(block, g) >> 28);
}

static inline void decode(const IQ2_XXS& block, float* out) {
    decode_signed_grid(block, out);
}
#endif

}  // namespace ferrule::formats
