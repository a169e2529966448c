// Scales of one byte per 16 values, as in Q2_K and Q6_K.
#pragma once
#include "unpack.h"

namespace ferrule::cpu::FERRULE_ISA {

// Lane r of bytes has the 16 bytes of row r. Element r of lane g is the byte, with its sign, of one part of group g.
template <int part>
inline simd::i32x16 group_bytes(simd::u8x64 bytes, uint32_t half) {
    static constexpr uint8_t b = part;
    // Byte 2g + part becomes the top byte of element g.
    static constexpr uint8_t order[2][16] = {{0, 0, 0, b, 0, 0, 0, b + 2, 0, 0, 0, b + 4, 0, 0, 0, b + 6},
                                             {0, 0, 0, b + 8, 0, 0, 0, b + 10, 0, 0, 0, b + 12, 0, 0, 0, b + 14}};
    const simd::u8x64 spread = simd::lookup16(bytes, simd::repeat16(order[half]));
    return simd::transpose_lanes(simd::as_i32(spread)) >> 24;
}

// The 16 bytes at `offset` of each of four blocks.
inline simd::u8x64 bytes_at(const uint8_t* const blocks[4], size_t offset) {
    return simd::load4x16(blocks[0] + offset, blocks[1] + offset, blocks[2] + offset, blocks[3] + offset);
}

}  // namespace ferrule::cpu::FERRULE_ISA
