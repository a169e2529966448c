// IQ1_S: 256 values in 8 groups of 32, each four entries of a codebook of 2048 with eight ternary values. The low 8
// bits of entry numbers are in low; high[g] has three more for each entry, then 3 bits of scale and the sign of the
// shift. value = scale * (2 * group scale + 1) * (-1, 0 or 1, shifted by 1/8 or -1/8)
#pragma once
#include "float16.h"
#include "grids.h"
#include "ternary_grid.h"

namespace ferrule::formats {

struct IQ1_S {
    enum : uint32_t { kElements = 256, kGgmlType = 19 };
    uint16_t scale;  // f16
    uint8_t low[32];
    uint16_t high[8];
};
static_assert(sizeof(IQ1_S) == 50);

#ifndef __METAL_VERSION__
// The n-th entry of group g: eight values + 1.
static inline uint64_t entry(const IQ1_S& block, int g, int n) {
    return kIq1SGrid.entries[block.low[4 * g + n] | ((block.high[g] >> (3 * n)) & 7) << 8];
}

static inline bool shifts_down(const IQ1_S& block, int g, int) {
    return (block.high[g] & 0x8000) != 0;
}

// What group scales are multiples of.
static inline float unit(const IQ1_S& block) {
    return f16_to_f32(block.scale);
}

// Of group g: its scale in units.
static inline float step(const IQ1_S& block, int g, int) {
    return static_cast<float>(2 * ((block.high[g] >> 12) & 7) + 1);
}

static inline void decode(const IQ1_S& block, float* out) {
    decode_ternary_grid(block, out);
}
#endif

}  // namespace ferrule::formats
