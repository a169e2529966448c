// The order of two-bit codes in Q2_K, Q3_K and TQ2_0, and of two more bits in Q6_K.
#pragma once
#include "unpack.h"

namespace ferrule::cpu::FERRULE_ISA {

// 32 bytes; bits 2g and 2g + 1 of byte i belong to value i of group g.
inline Codes two_bits(const uint8_t* p) {
    using namespace simd;
    const u8x64 three = set1_u8(3);
    return {shift_right_lanes<0, 2, 4, 6>(repeat16(p)) & three,
            shift_right_lanes<0, 2, 4, 6>(repeat16(p + 16)) & three};
}

}  // namespace ferrule::cpu::FERRULE_ISA
