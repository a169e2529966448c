// Q3_K.
#pragma once
#include "../../csrc/formats/q3_k.h"
#include "decoded.h"

namespace ferrule {

template <>
struct WeightFormat<Q3_K> : DecodedFormat<Q3_K> {
    static void decode(device const Q3_K* row, uint first, uint, thread float* values) {
        device const Q3_K& block = row[first / 256];
        const uint i = first % 256, g = i / 16, shift = i % 128 / 32 * 2;
        const int scale_low = block.scales[g % 8] >> (g / 8 * 4) & 15,
                  scale_high = block.scales[8 + g % 4] >> (g / 4 * 2) & 3;
        const float scale = half_bits(block.scale) * float((scale_low | scale_high << 4) - 32);
        device const uint8_t* low = block.low + i / 128 * 32 + i % 32;
        device const uint8_t* high = block.high + i % 32;
        for (uint j = 0; j < 16; ++j) {
            const int code = ((low[j] >> shift) & 3) | ((high[j] >> (i / 32)) & 1) << 2;
            values[j] = scale * float(code - 4);
        }
    }
};

}  // namespace ferrule
