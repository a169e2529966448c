// IQ2_S: 256 values in 8 groups of 32, each four entries of a codebook of 1024 with eight values. The low 8 bits of
// entry numbers are in low, two more each in high[g]; signs has a byte per entry; scales as in IQ2_XS. value = scale *
// (0.5 + half group's scale) / 4 * sign * magnitude
#pragma once
#include "float16.h"
#include "grids.h"
#include "signed_grid.h"

namespace ferrule::formats {

struct IQ2_S {
    enum : uint32_t { kElements = 256, kGgmlType = 22 };
    uint16_t scale;  // f16
    uint8_t low[32];
    uint8_t signs[32];
    uint8_t high[8];
    uint8_t scales[8];
};
static_assert(sizeof(IQ2_S) == 82);

#ifndef __METAL_VERSION__
// Magnitudes of the n-th eight values of group g.
static inline uint64_t magnitudes(const IQ2_S& block, int g, int n) {
    return kIq2SGrid.entries[block.low[4 * g + n] | ((block.high[g] >> (2 * n)) & 3) << 8];
}

// Bit 8 n + i: the i-th of the n-th eight values of group g is negative.
static inline uint32_t signs(const IQ2_S& block, int g) {
    const uint8_t* s = block.signs + 4 * g;
    return s[0] | static_cast<uint32_t>(s[1]) << 8 | static_cast<uint32_t>(s[2]) << 16 |
           static_cast<uint32_t>(s[3]) << 24;
}

// What group scales are multiples of.
static inline float unit(const IQ2_S& block) {
    return f16_to_f32(block.scale) * 0.25f;
}

// Of half n of group g: its scale in units.
static inline float step(const IQ2_S& block, int g, int n) {
    return 0.5f + static_cast<float>((block.scales[g] >> (4 * n)) & 15);
}

static inline void decode(const IQ2_S& block, float* out) {
    decode_signed_grid(block, out);
}
#endif

}  // namespace ferrule::formats
