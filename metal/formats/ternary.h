// TQ1_0, TQ2_0.
#pragma once
#include "../../csrc/formats/tq1_0.h"
#include "../../csrc/formats/tq2_0.h"
#include "decoded.h"

namespace ferrule {

// The n-th digit of a base-3 fraction.
inline int ternary_digit(uint fraction, uint n) {
    const uint power = n == 0 ? 1 : n == 1 ? 3 : n == 2 ? 9 : n == 3 ? 27 : 81;
    return int((fraction * power & 255) * 3 >> 8);
}

template <>
struct WeightFormat<TQ1_0> : DecodedFormat<TQ1_0> {
    static void decode(device const TQ1_0* row, uint first, uint, thread float* values) {
        device const TQ1_0& block = row[first / 256];
        const uint i = first % 256;
        const float scale = half_bits(block.scale);
        // The last 16 values are four bytes' first four digits.
        const bool is_rest = i >= 240;
        device const uint8_t* codes = is_rest ? block.rest : i < 160 ? block.codes + i % 32 : block.codes + 32;
        const uint n = i < 160 ? i / 32 : (i - 160) / 16;
        for (uint j = 0; j < 16; ++j) {
            const int digit = ternary_digit(codes[is_rest ? j % 4 : j], is_rest ? j / 4 : n);
            values[j] = scale * float(digit - 1);
        }
    }
};

template <>
struct WeightFormat<TQ2_0> : DecodedFormat<TQ2_0> {
    static void decode(device const TQ2_0* row, uint first, uint, thread float* values) {
        device const TQ2_0& block = row[first / 256];
        const uint i = first % 256, shift = i % 128 / 32 * 2;
        device const uint8_t* codes = block.codes + i / 128 * 32 + i % 32;
        const float scale = half_bits(block.scale);
        for (uint j = 0; j < 16; ++j) values[j] = scale * float(int((codes[j] >> shift) & 3) - 1);
    }
};

}  // namespace ferrule
