// IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS, IQ3_S, IQ1_S, IQ1_M: entries of codebooks. The functions below take the number g of
// a group of 32 values of a block.
#pragma once
#include "../../csrc/formats/grid_entries.h"
#include "../../csrc/formats/iq1_m.h"
#include "../../csrc/formats/iq1_s.h"
#include "../../csrc/formats/iq2_s.h"
#include "../../csrc/formats/iq2_xs.h"
#include "../../csrc/formats/iq2_xxs.h"
#include "../../csrc/formats/iq3_s.h"
#include "../../csrc/formats/iq3_xxs.h"
#include "decoded.h"

namespace ferrule {

inline uint two_words(device const uint16_t* low_and_high) {
    return low_and_high[0] | uint(low_and_high[1]) << 16;
}

// The n-th eight digits of a group.
inline uint digits_of(device const IQ2_XXS& block, uint g, uint n) {
    return kIq2XxsEntries[block.groups[g][n / 2] >> (n % 2 * 8) & 255];
}
inline uint digits_of(device const IQ2_XS& block, uint g, uint n) {
    return kIq2XsEntries[block.entries[4 * g + n] & 511];
}
inline uint digits_of(device const IQ2_S& block, uint g, uint n) {
    return kIq2SEntries[block.low[4 * g + n] | (block.high[g] >> (2 * n) & 3u) << 8];
}
inline uint digits_of(device const IQ3_XXS& block, uint g, uint n) {
    device const uint8_t* entries = block.entries + 8 * g + 2 * n;
    return kIq3XxsEntries[entries[0]] | uint(kIq3XxsEntries[entries[1]]) << 12;
}
inline uint digits_of(device const IQ3_S& block, uint g, uint n) {
    device const uint8_t* low = block.low + 8 * g + 2 * n;
    const uint high = block.high[g] >> (2 * n);
    return kIq3SEntries[low[0] | (high & 1) << 8] | uint(kIq3SEntries[low[1] | (high & 2) << 7]) << 12;
}

// Bit i: value i of the group is negative.
inline uint signs(device const IQ2_XXS& block, uint g) {
    return four_times_eight_signs(two_words(block.groups[g] + 2) & 0x0FFFFFFF);
}
inline uint signs(device const IQ2_XS& block, uint g) {
    device const uint16_t* e = block.entries + 4 * g;
    return four_times_eight_signs(uint(e[0] >> 9) | uint(e[1] >> 9) << 7 | uint(e[2] >> 9) << 14 |
                                  uint(e[3] >> 9) << 21);
}
inline uint signs(device const IQ2_S& block, uint g) {
    return two_words(words(block.signs + 4 * g));
}
inline uint signs(device const IQ3_XXS& block, uint g) {
    return four_times_eight_signs(two_words(block.words[g]) & 0x0FFFFFFF);
}
inline uint signs(device const IQ3_S& block, uint g) {
    return two_words(words(block.signs + 4 * g));
}

// Of half a group.
inline float group_scale(device const IQ2_XXS& block, uint g, uint) {
    return half_bits(block.scale) * 0.25f * (0.5f + float(two_words(block.groups[g] + 2) >> 28));
}
inline float group_scale(device const IQ2_XS& block, uint g, uint half_group) {
    return half_bits(block.scale) * 0.25f * (0.5f + float(block.scales[g] >> (4 * half_group) & 15));
}
inline float group_scale(device const IQ2_S& block, uint g, uint half_group) {
    return half_bits(block.scale) * 0.25f * (0.5f + float(block.scales[g] >> (4 * half_group) & 15));
}
inline float group_scale(device const IQ3_XXS& block, uint g, uint) {
    return half_bits(block.scale) * 0.5f * (0.5f + float(two_words(block.words[g]) >> 28));
}
inline float group_scale(device const IQ3_S& block, uint g, uint) {
    return half_bits(block.scale) * float(1 + 2 * (block.scales[g / 2] >> (g % 2 * 4) & 15));
}

// What digits stand for.
struct ThreeSizes {
    enum : uint { kBase = 3 };
    static uint magnitude(uint digit) { return 8 + 17 * digit + digit / 2; }
};
struct EightSteps {
    enum : uint { kBase = 8 };
    static uint magnitude(uint digit) { return 4 + 8 * digit + digit / 7 * 2; }
};
struct EightOdd {
    enum : uint { kBase = 8 };
    static uint magnitude(uint digit) { return 1 + 2 * digit; }
};

template <class Block, class Digits>
struct SignedGridFormat : DecodedFormat<Block> {
    static void decode(device const Block* row, uint first, uint, thread float* values) {
        device const Block& block = row[first / 256];
        const uint g = first % 256 / 32, half_group = first % 32 / 16;
        const float factor = group_scale(block, g, half_group);
        const uint negative = signs(block, g) >> (16 * half_group);
        for (uint n = 0; n < 2; ++n) {
            uint digits = digits_of(block, g, 2 * half_group + n);
            for (uint i = 8 * n; i < 8 * n + 8; ++i, digits /= Digits::kBase) {
                const float value = factor * float(Digits::magnitude(digits % Digits::kBase));
                values[i] = (negative >> i & 1) != 0 ? -value : value;
            }
        }
    }
};

template <>
struct WeightFormat<IQ2_XXS> : SignedGridFormat<IQ2_XXS, ThreeSizes> {};
template <>
struct WeightFormat<IQ2_XS> : SignedGridFormat<IQ2_XS, ThreeSizes> {};
template <>
struct WeightFormat<IQ2_S> : SignedGridFormat<IQ2_S, ThreeSizes> {};
template <>
struct WeightFormat<IQ3_XXS> : SignedGridFormat<IQ3_XXS, EightSteps> {};
template <>
struct WeightFormat<IQ3_S> : SignedGridFormat<IQ3_S, EightOdd> {};

// The four bits that belong to the n-th eight values: three of their entry's number and the sign of their shift.
inline uint high_bits(device const IQ1_S& block, uint g, uint n) {
    return (block.high[g] >> (3 * n) & 7u) | (block.high[g] >> 12 & 8u);
}
inline uint high_bits(device const IQ1_M& block, uint g, uint n) {
    return block.high[2 * g + n / 2] >> (n % 2 * 4) & 15;
}

inline float group_scale(device const IQ1_S& block, uint g, uint) {
    return half_bits(block.scale) * float(2 * (block.high[g] >> 12 & 7) + 1);
}
inline float group_scale(device const IQ1_M& block, uint g, uint half_group) {
    device const uint16_t* s = block.scales;
    const uint unit = s[0] >> 12 | s[1] >> 12 << 4 | s[2] >> 12 << 8 | s[3] >> 12 << 12;
    return half_bits(uint16_t(unit)) * float(2 * (s[g / 2] >> (g % 2 * 6 + 3 * half_group) & 7) + 1);
}

template <class Block>
struct TernaryGridFormat : DecodedFormat<Block> {
    static void decode(device const Block* row, uint first, uint, thread float* values) {
        device const Block& block = row[first / 256];
        const uint g = first % 256 / 32, half_group = first % 32 / 16;
        const float factor = group_scale(block, g, half_group);
        for (uint n = 0; n < 2; ++n) {
            const uint high = high_bits(block, g, 2 * half_group + n);
            const float shifted = (high & 8) != 0 ? -1.125f : -0.875f;
            uint digits = kIq1SEntries[block.low[4 * g + 2 * half_group + n] | (high & 7) << 8];
            for (uint i = 8 * n; i < 8 * n + 8; ++i, digits /= 3) values[i] = factor * (float(digits % 3) + shifted);
        }
    }
};

template <>
struct WeightFormat<IQ1_S> : TernaryGridFormat<IQ1_S> {};
template <>
struct WeightFormat<IQ1_M> : TernaryGridFormat<IQ1_M> {};

}  // namespace ferrule
