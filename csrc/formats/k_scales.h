// The eight 6-bit scales and minimums that Q4_K and Q5_K pack into 12 bytes:
//   bytes 0-3   low six bits: scales 0-3;    top two bits: upper bits of scales 4-7
//   bytes 4-7   low six bits: minimums 0-3;  top two bits: upper bits of minimums 4-7
//   bytes 8-11  low nibble: low bits of scales 4-7; high nibble: low bits of minimums 4-7
#pragma once
#include "float16.h"

namespace ferrule::formats {

struct KScales {
    uint8_t bytes[12];
};

#ifndef __METAL_VERSION__
static inline int k_scale(const KScales& packed, int group) {
    const uint8_t* b = packed.bytes;
    return group < 4 ? b[group] & 63 : (b[group + 4] & 15) | (b[group - 4] >> 6) << 4;
}

static inline int k_minimum(const KScales& packed, int group) {
    const uint8_t* b = packed.bytes;
    return group < 4 ? b[group + 4] & 63 : b[group + 4] >> 4 | (b[group] >> 6) << 4;
}
#endif

}  // namespace ferrule::formats
