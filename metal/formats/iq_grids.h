// IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS, IQ3_S, IQ1_S, IQ1_M: entries of codebooks. The functions below take the number g of
// a group of 32 values of a block.
#pragma once
#include "../../csrc/formats/expand_grid.h"
#include "../../csrc/formats/iq1_m.h"
#include "../../csrc/formats/iq1_s.h"
#include "../../csrc/formats/iq2_s.h"
#include "../../csrc/formats/iq2_xs.h"
#include "../../csrc/formats/iq2_xxs.h"
#include "../../csrc/formats/iq3_s.h"
#include "../../csrc/formats/iq3_xxs.h"
#include "decoded.h"

namespace ferrule {

constant constexpr Grid<uint64_t, 256> kIq2XxsGrid = expand<Iq2XxsBook, uint64_t, 256>();
constant constexpr Grid<uint64_t, 512> kIq2XsGrid = expand<Iq2XsBook, uint64_t, 512>();
constant constexpr Grid<uint64_t, 1024> kIq2SGrid = expand<Iq2SBook, uint64_t, 1024>();
constant constexpr Grid<uint32_t, 256> kIq3XxsGrid = expand<Iq3XxsBook, uint32_t, 256>();
constant constexpr Grid<uint32_t, 512> kIq3SGrid = expand<Iq3SBook, uint32_t, 512>();
constant constexpr Grid<uint64_t, 2048> kIq1SGrid = expand<Iq1SBook, uint64_t, 2048>();

inline uint two_words(device const uint16_t* low_and_high) {
    return low_and_high[0] | uint(low_and_high[1]) << 16;
}

// The q-th four magnitudes of a group, one in each byte.
inline uint magnitudes(device const IQ2_XXS& block, uint g, uint q) {
    return uint(kIq2XxsGrid.entries[block.groups[g][q / 4] >> (q / 2 % 2 * 8) & 255] >> (q % 2 * 32));
}
inline uint magnitudes(device const IQ2_XS& block, uint g, uint q) {
    return uint(kIq2XsGrid.entries[block.entries[4 * g + q / 2] & 511] >> (q % 2 * 32));
}
inline uint magnitudes(device const IQ2_S& block, uint g, uint q) {
    const uint number = block.low[4 * g + q / 2] | (block.high[g] >> (q / 2 * 2) & 3u) << 8;
    return uint(kIq2SGrid.entries[number] >> (q % 2 * 32));
}
inline uint magnitudes(device const IQ3_XXS& block, uint g, uint q) {
    return kIq3XxsGrid.entries[block.entries[8 * g + q]];
}
inline uint magnitudes(device const IQ3_S& block, uint g, uint q) {
    return kIq3SGrid.entries[block.low[8 * g + q] | (block.high[g] >> q & 1u) << 8];
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

template <class Block>
struct SignedGridFormat : DecodedFormat<Block> {
    static void decode(device const Block* row, uint first, uint, thread float* values) {
        device const Block& block = row[first / 256];
        const uint g = first % 256 / 32, half_group = first % 32 / 16;
        const float factor = group_scale(block, g, half_group);
        const uint negative = signs(block, g) >> (16 * half_group);
        for (uint i = 0; i < 16; ++i) {
            const float value = factor * float(magnitudes(block, g, 4 * half_group + i / 4) >> (i % 4 * 8) & 255);
            values[i] = (negative >> i & 1) != 0 ? -value : value;
        }
    }
};

template <>
struct WeightFormat<IQ2_XXS> : SignedGridFormat<IQ2_XXS> {};
template <>
struct WeightFormat<IQ2_XS> : SignedGridFormat<IQ2_XS> {};
template <>
struct WeightFormat<IQ2_S> : SignedGridFormat<IQ2_S> {};
template <>
struct WeightFormat<IQ3_XXS> : SignedGridFormat<IQ3_XXS> {};
template <>
struct WeightFormat<IQ3_S> : SignedGridFormat<IQ3_S> {};

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
        for (uint i = 0; i < 16; ++i) {
            const uint n = 2 * half_group + i / 8, high = high_bits(block, g, n);
            const uint64_t eight = kIq1SGrid.entries[block.low[4 * g + n] | (high & 7) << 8];
            const float shift = (high & 8) != 0 ? -0.125f : 0.125f;
            values[i] = factor * (float(int(eight >> (i % 8 * 8) & 255) - 1) + shift);
        }
    }
};

template <>
struct WeightFormat<IQ1_S> : TernaryGridFormat<IQ1_S> {};
template <>
struct WeightFormat<IQ1_M> : TernaryGridFormat<IQ1_M> {};

}  // namespace ferrule
