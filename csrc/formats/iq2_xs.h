// IQ2_XS: 256 values in 8 groups of 32, each four entries of a codebook of 512 with eight values. An entry is 16 bits:
// 9 of number, 7 of signs. Each half group of 16 has a 4-bit scale: the low nibble of the group's byte, then the high.
// value = scale * (0.5 + half group's scale) / 4 * sign * magnitude
#pragma once
#include "float16.h"
#include "grids.h"
#include "signed_grid.h"

namespace ferrule::formats {

struct IQ2_XS {
    enum : uint32_t { kElements = 256, kGgmlType = 17 };
    uint16_t scale;  // f16
    uint16_t entries[32];
    uint8_t scales[8];
};
static_assert(sizeof(IQ2_XS) == 74);

#ifndef __METAL_VERSION__
// Magnitudes of the n-th eight values of group g.
static inline uint64_t magnitudes(const IQ2_XS& block, int g, int n) {
    return kIq2XsGrid.entries[block.entries[4 * g + n] & 511];
}

// Bit 8 n + i: the i-th of the n-th eight values of group g is negative.
static inline uint32_t signs(const IQ2_XS& block, int g) {
    const uint16_t* e = block.entries + 4 * g;
    return four_times_eight_signs(
        static_cast<uint32_t>(e[0] >> 9 | e[1] >> 9 << 7 | e[2] >> 9 << 14 | e[3] >> 9 << 21));
}

// What group scales are multiples of.
static inline float unit(const IQ2_XS& block) {
    return f16_to_f32(block.scale) * 0.25f;
}

// Of half n of group g: its scale in units.
static inline float step(const IQ2_XS& block, int g, int n) {
    return 0.5f + static_cast<float>((block.scales[g] >> (4 * n)) & 15);
}

static inline void decode(const IQ2_XS& block, float* out) {
    decode_signed_grid(block, out);
}
#endif

}  // namespace ferrule::formats
