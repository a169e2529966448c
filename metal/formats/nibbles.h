// Q4_0, Q4_1, Q5_0, Q5_1: blocks of 32 with nibbles of values i and i + 16 in byte i. A chunk is 8 bytes, half a block.
#pragma once
#include "../../csrc/formats/q4_0.h"
#include "../../csrc/formats/q4_1.h"
#include "../../csrc/formats/q5_0.h"
#include "../../csrc/formats/q5_1.h"
#include "weight_format.h"

namespace ferrule {

inline float scale_of(device const Q4_0& block) {
    return half_bits(block.scale);
}
inline float scale_of(device const Q4_1& block) {
    return half_bits(block.scale);
}
inline float scale_of(device const Q5_0& block) {
    return half_bits(block.scale);
}
inline float scale_of(device const Q5_1& block) {
    return half_bits(block.scale);
}
// Added to scale * code.
inline float minimum_of(device const Q4_0& block) {
    return -8.0f * half_bits(block.scale);
}
inline float minimum_of(device const Q4_1& block) {
    return half_bits(block.minimum);
}
inline float minimum_of(device const Q5_0& block) {
    return -16.0f * half_bits(block.scale);
}
inline float minimum_of(device const Q5_1& block) {
    return half_bits(block.minimum);
}
inline device const uint16_t* nibbles_of(device const Q4_0& block) {
    return words(block.codes);
}
inline device const uint16_t* nibbles_of(device const Q4_1& block) {
    return words(block.codes);
}
inline device const uint16_t* nibbles_of(device const Q5_0& block) {
    return words(block.low);
}
inline device const uint16_t* nibbles_of(device const Q5_1& block) {
    return words(block.low);
}
// Bit i: the fifth bit of code i.
inline uint fifth_bits(device const Q4_0&) {
    return 0;
}
inline uint fifth_bits(device const Q4_1&) {
    return 0;
}
inline uint fifth_bits(device const Q5_0& block) {
    return words(block.high)[0] | uint(words(block.high)[1]) << 16;
}
inline uint fifth_bits(device const Q5_1& block) {
    return words(block.high)[0] | uint(words(block.high)[1]) << 16;
}

template <class Block>
struct NibbleFormat {
    enum : uint { kChunk = 16 };

    struct Input {
        float x[16];  // of the codes in the order in which they are masked out of the words
        float sum;
    };

    static void decode(device const Block* row, uint first, uint, thread float* values) {
        device const Block& block = row[first / 32];
        const bool upper = first % 32 != 0;
        const uint fifth = fifth_bits(block) >> (upper ? 16 : 0);
        const float scale = scale_of(block), minimum = minimum_of(block);
        for (uint i = 0; i < 16; ++i) {
            const uint nibble = nibbles_of(block)[i / 2] >> (i % 2 * 8 + (upper ? 4 : 0)) & 15;
            values[i] = scale * float(nibble | (fifth >> i & 1) << 4) + minimum;
        }
    }

    static void prepare(device const float* x, uint chunk, uint, thread Input& input) {
        x += chunk / 2 * 32 + chunk % 2 * 8;
        float low[8], high[8];
        load_inputs<8>(x, low);
        load_inputs<8>(x + 16, high);
        input.sum = 0;
        for (uint i = 0; i < 8; i += 2) {
            input.sum += (low[i] + low[i + 1]) + (high[i] + high[i + 1]);
            input.x[2 * i] = low[i];
            input.x[2 * i + 1] = low[i + 1] / 256.0f;
            input.x[2 * i + 2] = high[i] / 16.0f;
            input.x[2 * i + 3] = high[i + 1] / 4096.0f;
        }
    }

    static float dot(device const Block* row, uint chunk, uint, thread const Input& input) {
        device const Block& block = row[chunk / 2];
        device const uint16_t* nibbles = nibbles_of(block) + chunk % 2 * 4;
        const uint fifth = fifth_bits(block) >> (chunk % 2 * 8);
        float sum = 0;
        for (uint i = 0; i < 4; ++i) {
            const uint word = nibbles[i], bits = fifth >> (2 * i);
            sum += input.x[4 * i] * float((word & 0x000Fu) | (bits << 4 & 0x10u));
            sum += input.x[4 * i + 1] * float((word & 0x0F00u) | (bits << 11 & 0x1000u));
            sum += input.x[4 * i + 2] * float((word & 0x00F0u) | (bits >> 8 & 0x100u));
            sum += input.x[4 * i + 3] * float((word & 0xF000u) | (bits >> 1 & 0x10000u));
        }
        return scale_of(block) * sum + minimum_of(block) * input.sum;
    }
};

template <>
struct WeightFormat<Q4_0> : NibbleFormat<Q4_0> {};
template <>
struct WeightFormat<Q4_1> : NibbleFormat<Q4_1> {};
template <>
struct WeightFormat<Q5_0> : NibbleFormat<Q5_0> {};
template <>
struct WeightFormat<Q5_1> : NibbleFormat<Q5_1> {};

}  // namespace ferrule
