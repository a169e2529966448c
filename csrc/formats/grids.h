// Codebooks of the IQ formats: each entry is 8 (IQ3: 4) small numbers, the first in the lowest byte.
#pragma once
#include "float16.h"

namespace ferrule::formats {

#ifndef __METAL_VERSION__
template <class Entry, uint32_t count>
struct Grid {
    Entry entries[count];
};

extern const Grid<uint64_t, 256> kIq2XxsGrid;  // of 8, 25, 43
extern const Grid<uint64_t, 512> kIq2XsGrid;
extern const Grid<uint64_t, 1024> kIq2SGrid;
extern const Grid<uint32_t, 256> kIq3XxsGrid;  // of 4, 12, 20, 28, 36, 44, 52, 62
extern const Grid<uint32_t, 512> kIq3SGrid;    // of 1, 3, 5, 7, 9, 11, 13, 15
extern const Grid<uint64_t, 2048> kIq1SGrid;   // of 0, 1, 2, which stand for -1, 0, 1
#endif

// Formats that store 7 signs for 8 numbers: the eighth makes the count of minus signs even. Four times 7 bits become
// four bytes of signs.
static inline uint32_t four_times_eight_signs(uint32_t bits) {
    const uint32_t seven = (bits & 0x7f) | (bits << 1 & 0x7f00) | (bits << 2 & 0x7f0000) | (bits << 3 & 0x7f000000);
    uint32_t parity = seven ^ seven >> 4;  // of a byte's bits, in its lowest bit
    parity ^= parity >> 2;
    parity ^= parity >> 1;
    return seven | (parity & 0x01010101) << 7;
}

}  // namespace ferrule::formats
