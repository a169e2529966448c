// IQ3_XXS: 256 values in 8 groups of 32, each eight entries of a codebook of 256 with four values. Entry numbers are in
// entries; a group's word has four times 7 sign bits (for eight values), below 4 bits of scale.
// value = scale * (0.5 + group scale) / 2 * sign * magnitude
#pragma once
#include "float16.h"
#include "grids.h"
#include "signed_grid.h"

namespace ferrule::formats {

struct IQ3_XXS {
    enum : uint32_t { kElements = 256, kGgmlType = 18 };
    uint16_t scale;  // f16
    uint8_t entries[64];
    uint16_t words[8][2];
};
static_assert(sizeof(IQ3_XXS) == 98);

#ifndef __METAL_VERSION__
static inline uint32_t word(const IQ3_XXS& block, int g) {
    return block.words[g][0] | static_cast<uint32_t>(block.words[g][1]) << 16;
}

// Magnitudes of the n-th eight values of group g.
static inline uint64_t magnitudes(const IQ3_XXS& block, int g, int n) {
    const uint8_t* entries = block.entries + 8 * g + 2 * n;
    return kIq3XxsGrid.entries[entries[0]] | static_cast<uint64_t>(kIq3XxsGrid.entries[entries[1]]) << 32;
}

// Bit 8 n + i: the i-th of the n-th eight values of group g is negative.
static inline uint32_t signs(const IQ3_XXS& block, int g) {
    return four_times_eight_signs(word(block, g) & 0x0fffffff);
}

// What group scales are multiples of.
static inline float unit(const IQ3_XXS& block) {
    return f16_to_f32(block.scale) * 0.5f;
}

// Of group g: its scale in units.
static inline float step(const IQ3_XXS& block, int g, int) {
    return 0.5f + static_cast<float>(word(block, g) >> 28);
}

static inline void decode(const IQ3_XXS& block, float* out) {
    decode_signed_grid(block, out);
}
#endif

}  // namespace ferrule::formats
