// IQ3_S: 256 values in 8 groups of 32, each eight entries of a codebook of 512 with four values. The low 8 bits of
// entry numbers are in low, the ninth of entry n of group g is bit n of high[g]; signs has a bit per value; the 4-bit
// scale of group g is nibble g of scales. value = scale * (1 + 2 * group scale) * sign * magnitude
#pragma once
#include "float16.h"
#include "grids.h"
#include "signed_grid.h"

namespace ferrule::formats {

struct IQ3_S {
    enum : uint32_t { kElements = 256, kGgmlType = 21 };
    uint16_t scale;  // f16
    uint8_t low[64];
    uint8_t high[8];
    uint8_t signs[32];
    uint8_t scales[4];
};
static_assert(sizeof(IQ3_S) == 110);

#ifndef __METAL_VERSION__
// Magnitudes of the n-th eight values of group g.
static inline uint64_t magnitudes(const IQ3_S& block, int g, int n) {
    uint64_t eight = 0;
    for (int i = 0; i < 2; ++i) {
        const int e = 2 * n + i;
        const int number = block.low[8 * g + e] | ((block.high[g] >> e) & 1) << 8;
        eight |= static_cast<uint64_t>(kIq3SGrid.entries[number]) << (32 * i);
    }
    return eight;
}

// Bit 8 n + i: the i-th of the n-th eight values of group g is negative.
static inline uint32_t signs(const IQ3_S& block, int g) {
    const uint8_t* s = block.signs + 4 * g;
    return s[0] | static_cast<uint32_t>(s[1]) << 8 | static_cast<uint32_t>(s[2]) << 16 |
           static_cast<uint32_t>(s[3]) << 24;
}

// What group scales are multiples of.
static inline float unit(const IQ3_S& block) {
    return f16_to_f32(block.scale);
}

// Of group g: its scale in units.
static inline float step(const IQ3_S& block, int g, int) {
    return static_cast<float>(1 + 2 * ((block.scales[g / 2] >> (g % 2 * 4)) & 15));
}

static inline void decode(const IQ3_S& block, float* out) {
    decode_signed_grid(block, out);
}
#endif

}  // namespace ferrule::formats
