// Rows of a weight format in f32.
#pragma once
#include "../formats/formats.h"

namespace ferrule::cpu::FERRULE_ISA {

// The n values, whole blocks, of a row at any address.
template <class Block>
void decode_row(const uint8_t* row, uint32_t n, float* out) {
    for (uint32_t i = 0; i < n; i += Block::kElements) {
        Block block;  // a copy, for it must be aligned
        __builtin_memcpy(&block, row, sizeof(Block));
        formats::decode(block, out + i);
        row += sizeof(Block);
    }
}

}  // namespace ferrule::cpu::FERRULE_ISA
