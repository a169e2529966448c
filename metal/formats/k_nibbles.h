// Q4_K, Q5_K: 32 bytes hold two groups of 32, low and high nibbles. A chunk is 16 bytes, half of both groups.
#pragma once
#include "../../csrc/formats/q4_k.h"
#include "../../csrc/formats/q5_k.h"
#include "weight_format.h"

namespace ferrule {

inline device const uint16_t* nibbles_of(device const Q4_K& block) {
    return words(block.codes);
}
inline device const uint16_t* nibbles_of(device const Q5_K& block) {
    return words(block.low);
}
// Of values i and i + 1 of all groups; bit g of each byte belongs to group g.
inline uint fifth_bits(device const Q4_K&, uint) {
    return 0;
}
inline uint fifth_bits(device const Q5_K& block, uint i) {
    return words(block.high)[i / 2];
}

// Scales and minimums of groups 2 * pair and 2 * pair + 1, unpacked two at a time, see csrc/formats/k_scales.h.
struct KPair {
    uint scales, minimums;  // the first group's in the low byte, the second's in the high one
};

inline KPair k_pair(device const KScales& packed, uint pair) {
    device const uint16_t* s = words(packed.bytes);
    if (pair < 2) return KPair{s[pair] & 0x3F3Fu, s[pair + 2] & 0x3F3Fu};
    return KPair{(s[pair + 2] & 0x0F0Fu) | (s[pair - 2] & 0xC0C0u) >> 2,
                 (s[pair + 2] >> 4 & 0x0F0Fu) | (s[pair] & 0xC0C0u) >> 2};
}

template <class Block>
struct KFormat {
    enum : uint { kChunk = 32 };

    struct Input {
        float low[16], high[16];  // every second one divided by 256
        float low_sum, high_sum;
    };

    static void decode(device const Block* row, uint first, uint, thread float* values) {
        device const Block& block = row[first / 256];
        const uint group = first % 256 / 32, half_group = first % 32;
        const KPair pair = k_pair(block.scales, group / 2);
        const float scale = half_bits(block.scale) * float(pair.scales >> (group % 2 * 8) & 0xFF);
        const float minimum = half_bits(block.minimum) * float(pair.minimums >> (group % 2 * 8) & 0xFF);
        device const uint16_t* nibbles = nibbles_of(block) + group / 2 * 16 + half_group / 2;
        for (uint i = 0; i < 16; ++i) {
            const uint nibble = nibbles[i / 2] >> (i % 2 * 8 + group % 2 * 4) & 15;
            const uint fifth = fifth_bits(block, half_group + i / 2 * 2) >> (i % 2 * 8 + group) & 1;
            values[i] = scale * float(nibble | fifth << 4) - minimum;
        }
    }

    static void prepare(device const float* x, uint chunk, uint, thread Input& input) {
        x += chunk / 2 * 64 + chunk % 2 * 16;
        load_inputs<16>(x, input.low);
        load_inputs<16>(x + 32, input.high);
        input.low_sum = input.high_sum = 0;
        for (uint i = 0; i < 16; i += 2) {
            input.low_sum += input.low[i] + input.low[i + 1];
            input.high_sum += input.high[i] + input.high[i + 1];
            input.low[i + 1] /= 256.0f;
            input.high[i + 1] /= 256.0f;
        }
    }

    static float dot(device const Block* row, uint chunk, uint, thread const Input& input) {
        device const Block& block = row[chunk / 8];
        const uint pair = chunk % 8 / 2, begin = chunk % 2 * 16;
        device const uint16_t* nibbles = nibbles_of(block) + pair * 16 + begin / 2;
        float low = 0, high = 0;
        for (uint i = 0; i < 16; i += 2) {
            const uint word = nibbles[i / 2], fifth = fifth_bits(block, begin + i) >> (2 * pair);
            const uint first = (word & 0x0F0Fu) | (fifth & 0x0101u) << 4;
            const uint second = (word >> 4 & 0x0F0Fu) | (fifth >> 1 & 0x0101u) << 4;
            low += input.low[i] * float(first & 0xFFu) + input.low[i + 1] * float(first & 0xFF00u);
            high += input.high[i] * float(second & 0xFFu) + input.high[i + 1] * float(second & 0xFF00u);
        }
        const KPair k = k_pair(block.scales, pair);
        const float products = low * float(k.scales & 0xFFu) + high * float(k.scales >> 8);
        const float offsets = input.low_sum * float(k.minimums & 0xFFu) + input.high_sum * float(k.minimums >> 8);
        return half_bits(block.scale) * products - half_bits(block.minimum) * offsets;
    }
};

template <>
struct WeightFormat<Q4_K> : KFormat<Q4_K> {};
template <>
struct WeightFormat<Q5_K> : KFormat<Q5_K> {};

}  // namespace ferrule
