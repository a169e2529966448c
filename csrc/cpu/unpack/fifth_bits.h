// The fifth bits of Q5_0 and Q5_1.
#pragma once
#include "unpack.h"

namespace ferrule::cpu::FERRULE_ISA {

// low: both nibbles of four blocks; high: the first block's 32 bits.
template <size_t block_bytes>
inline Codes with_fifth_bits(simd::u8x64 low, const uint8_t* high) {
    uint64_t first = 0, second = 0;  // bits of values 0-15 and 16-31 of the four blocks
    for (size_t g = 0; g < 4; ++g) {
        uint32_t bits;
        __builtin_memcpy(&bits, high + g * block_bytes, 4);
        first |= uint64_t{bits & 0xffff} << 16 * g;
        second |= uint64_t{bits >> 16} << 16 * g;
    }
    const simd::u8x64 sixteen = simd::set1_u8(16);
    return {low_nibbles(low) | (simd::spread_bits(first) & sixteen),
            high_nibbles(low) | (simd::spread_bits(second) & sixteen)};
}

}  // namespace ferrule::cpu::FERRULE_ISA
