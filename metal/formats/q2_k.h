// Q2_K.
#pragma once
#include "../../csrc/formats/q2_k.h"
#include "decoded.h"

namespace ferrule {

template <>
struct WeightFormat<Q2_K> : DecodedFormat<Q2_K> {
    static void decode(device const Q2_K* row, uint first, uint, thread float* values) {
        device const Q2_K& block = row[first / 256];
        const uint i = first % 256, shift = i % 128 / 32 * 2, scales = block.scales[i / 16];
        const float scale = half_bits(block.scale) * float(scales & 15);
        const float minimum = half_bits(block.minimum) * float(scales >> 4);
        device const uint8_t* codes = block.codes + i / 128 * 32 + i % 32;
        for (uint j = 0; j < 16; ++j) values[j] = scale * float((codes[j] >> shift) & 3) - minimum;
    }
};

}  // namespace ferrule
