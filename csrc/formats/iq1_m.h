// IQ1_M: 256 values in 8 groups of 32, each four entries of the codebook of IQ1_S. The low 8 bits of entry numbers are
// in low; nibble n of the group's two bytes of high has three more and the sign of the shift. Each half group of 16 has
// three bits of scale: bits 6 (g % 2) + 3 half of scales[g / 2]. The top nibbles of scales make up the block's f16
// scale. value = scale * (2 * half group's scale + 1) * (-1, 0 or 1, shifted by 1/8 or -1/8)
#pragma once
#include "float16.h"
#include "grids.h"
#include "ternary_grid.h"

namespace ferrule::formats {

struct IQ1_M {
    enum : uint32_t { kElements = 256, kGgmlType = 29 };
    uint8_t low[32];
    uint8_t high[16];
    uint16_t scales[4];
};
static_assert(sizeof(IQ1_M) == 56);

#ifndef __METAL_VERSION__
static inline int high_nibble(const IQ1_M& block, int g, int n) {
    return (block.high[2 * g + n / 2] >> (n % 2 * 4)) & 15;
}

// The n-th entry of group g: eight values + 1.
static inline uint64_t entry(const IQ1_M& block, int g, int n) {
    return kIq1SGrid.entries[block.low[4 * g + n] | (high_nibble(block, g, n) & 7) << 8];
}

static inline bool shifts_down(const IQ1_M& block, int g, int n) {
    return (high_nibble(block, g, n) & 8) != 0;
}

// What group scales are multiples of.
static inline float unit(const IQ1_M& block) {
    const uint16_t* s = block.scales;
    return f16_to_f32(static_cast<uint16_t>(s[0] >> 12 | (s[1] >> 12) << 4 | (s[2] >> 12) << 8 | (s[3] >> 12) << 12));
}

// Of half n of group g: its scale in units.
static inline float step(const IQ1_M& block, int g, int n) {
    return static_cast<float>(2 * ((block.scales[g / 2] >> (g % 2 * 6 + 3 * n)) & 7) + 1);
}

static inline void decode(const IQ1_M& block, float* out) {
    decode_ternary_grid(block, out);
}
#endif

}  // namespace ferrule::formats
