// IQ4_NL, IQ4_XS: nibbles choose among 16 values.
#pragma once
#include "../../csrc/formats/iq4_nl.h"
#include "../../csrc/formats/iq4_xs.h"
#include "decoded.h"

namespace ferrule {

// Values of the low or high nibbles of 16 bytes.
inline void decode_iq4(device const uint8_t* codes, bool upper, float scale, thread float* values) {
    for (uint i = 0; i < 16; ++i) values[i] = scale * float(kIq4Values[upper ? codes[i] >> 4 : codes[i] & 15]);
}

template <>
struct WeightFormat<IQ4_NL> : DecodedFormat<IQ4_NL> {
    static void decode(device const IQ4_NL* row, uint first, uint, thread float* values) {
        device const IQ4_NL& block = row[first / 32];
        decode_iq4(block.codes, first % 32 != 0, half_bits(block.scale), values);
    }
};

template <>
struct WeightFormat<IQ4_XS> : DecodedFormat<IQ4_XS> {
    static void decode(device const IQ4_XS* row, uint first, uint, thread float* values) {
        device const IQ4_XS& block = row[first / 256];
        const uint g = first % 256 / 32;
        const int low = block.scales_low[g / 2] >> (g % 2 * 4) & 15, high = block.scales_high >> (2 * g) & 3;
        const float scale = half_bits(block.scale) * float((low | high << 4) - 32);
        decode_iq4(block.codes + 16 * g, first % 32 != 0, scale, values);
    }
};

}  // namespace ferrule
