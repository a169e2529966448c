// How kernels read weights. For every block struct of csrc/formats there is a WeightFormat with
//   decode(row, first, k, values)  16 values of a row of k, from index `first`, a multiple of 16; zeros from k on
//   dot                            a matrix-vector product's share of one lane: kChunk values of a row, see below
// Rows are pointers to a row's first block. Rows of float formats may have any length, those of others whole blocks.
//
// A chunk is what one lane takes at a time; a simdgroup's lanes take neighbouring chunks. The inputs of a chunk are
// read once, into an Input, and used for several rows of weights. Codes are taken out of 16-bit words by masks, without
// shifts: a code that stands 4, 8 or 12 bits up in its word counts 16, 256 or 4096 times too much, and its input is
// divided by as much beforehand, which is exact.
#pragma once
#include <metal_stdlib>

#include "../csrc/formats/bf16.h"
#include "../csrc/formats/f16.h"
#include "../csrc/formats/f32.h"
#include "../csrc/formats/q4_0.h"
#include "../csrc/formats/q4_1.h"
#include "../csrc/formats/q4_k.h"
#include "../csrc/formats/q5_0.h"
#include "../csrc/formats/q5_1.h"
#include "../csrc/formats/q5_k.h"
#include "../csrc/formats/q6_k.h"
#include "../csrc/formats/q8_0.h"

namespace ferrule {

using namespace ferrule::formats;

inline float half_bits(uint16_t bits) {
    return float(metal::as_type<half>(bits));
}

// `bytes` must be 2-aligned, as all blocks are.
inline device const uint16_t* words(device const uint8_t* bytes) {
    return (device const uint16_t*)bytes;
}

template <class Block>
struct WeightFormat;

// ---- Floats: chunks of 4 values.

inline float to_float(device const F32& weight) {
    return weight.value;
}
inline float to_float(device const F16& weight) {
    return half_bits(weight.value);
}
inline float to_float(device const BF16& weight) {
    return metal::as_type<float>(uint(weight.value) << 16);
}

template <class Block>
struct FloatFormat {
    enum : uint { kChunk = 4 };
    typedef float Tile;  // of matmul: what holds the values well enough

    struct Input {
        float x[4];
    };

    // Whole chunks take the way without questions.
    static void decode(device const Block* row, uint first, uint k, thread float* values) {
        if (first + 16 <= k) {
            for (uint i = 0; i < 16; ++i) values[i] = to_float(row[first + i]);
        } else {
            for (uint i = 0; i < 16; ++i) values[i] = first + i < k ? to_float(row[first + i]) : 0.0f;
        }
    }

    static void prepare(device const float* x, uint chunk, uint k, thread Input& input) {
        const uint first = 4 * chunk;
        if (first + 4 <= k) {
            for (uint i = 0; i < 4; ++i) input.x[i] = x[first + i];
        } else {
            for (uint i = 0; i < 4; ++i) input.x[i] = first + i < k ? x[first + i] : 0.0f;
        }
    }

    static float dot(device const Block* row, uint chunk, uint k, thread const Input& input) {
        const uint first = 4 * chunk;
        float sum = 0;
        if (first + 4 <= k) {
            for (uint i = 0; i < 4; ++i) sum += to_float(row[first + i]) * input.x[i];
        } else {
            for (uint i = 0; first + i < k; ++i) sum += to_float(row[first + i]) * input.x[i];
        }
        return sum;
    }
};

template <>
struct WeightFormat<F32> : FloatFormat<F32> {};
template <>
struct WeightFormat<F16> : FloatFormat<F16> {
    typedef half Tile;
};
template <>
struct WeightFormat<BF16> : FloatFormat<BF16> {};

// ---- Blocks of 32 with nibbles of values i and i + 16 in byte i: a chunk is 8 bytes, half a block.

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
    typedef half Tile;

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
        input.sum = 0;
        for (uint i = 0; i < 8; i += 2) {
            input.sum += (x[i] + x[i + 1]) + (x[i + 16] + x[i + 17]);
            input.x[2 * i] = x[i];
            input.x[2 * i + 1] = x[i + 1] / 256.0f;
            input.x[2 * i + 2] = x[i + 16] / 16.0f;
            input.x[2 * i + 3] = x[i + 17] / 4096.0f;
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

// ---- Q8_0: a chunk is 8 values, a quarter of a block.

template <>
struct WeightFormat<Q8_0> {
    enum : uint { kChunk = 8 };
    typedef half Tile;

    struct Input {
        float x[8];
    };

    static void decode(device const Q8_0* row, uint first, uint, thread float* values) {
        device const Q8_0& block = row[first / 32];
        const float scale = half_bits(block.scale);
        for (uint i = 0; i < 16; ++i) values[i] = scale * float(block.codes[first % 32 + i]);
    }

    static void prepare(device const float* x, uint chunk, uint, thread Input& input) {
        for (uint i = 0; i < 8; ++i) input.x[i] = x[8 * chunk + i];
    }

    static float dot(device const Q8_0* row, uint chunk, uint, thread const Input& input) {
        device const Q8_0& block = row[chunk / 4];
        device const int8_t* codes = block.codes + chunk % 4 * 8;
        float sum = 0;
        for (uint i = 0; i < 8; ++i) sum += float(codes[i]) * input.x[i];
        return half_bits(block.scale) * sum;
    }
};

// ---- Q4_K, Q5_K: 32 bytes hold two groups of 32, low and high nibbles; a chunk is 16 bytes, half of both groups.

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
    typedef half Tile;

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
        input.low_sum = input.high_sum = 0;
        for (uint i = 0; i < 16; i += 2) {
            input.low_sum += x[i] + x[i + 1];
            input.high_sum += x[i + 32] + x[i + 33];
            input.low[i] = x[i];
            input.low[i + 1] = x[i + 1] / 256.0f;
            input.high[i] = x[i + 32];
            input.high[i + 1] = x[i + 33] / 256.0f;
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

// ---- Q6_K: a chunk is 4 values of each 32 of half a block.

template <>
struct WeightFormat<Q6_K> {
    enum : uint { kChunk = 16 };
    typedef half Tile;

    struct Input {
        float x[16];  // [4 groups of 32][4], every second one divided by 256
        float sums[4];
    };

    static void decode(device const Q6_K* row, uint first, uint, thread float* values) {
        device const Q6_K& block = row[first / 256];
        const uint part = first % 256 / 128, group = first % 128 / 32, j = first % 32;
        const float scale = half_bits(block.scale) * float(block.scales[first % 256 / 16]);
        device const uint8_t* low = block.low + 64 * part + group % 2 * 32 + j;
        device const uint8_t* high = block.high + 32 * part + j;
        for (uint i = 0; i < 16; ++i) {
            const int code = (low[i] >> (group / 2 * 4) & 15) | (high[i] >> (group * 2) & 3) << 4;
            values[i] = scale * float(code - 32);
        }
    }

    static void prepare(device const float* x, uint chunk, uint, thread Input& input) {
        x += chunk / 8 * 128 + chunk % 8 * 4;
        for (uint group = 0; group < 4; ++group, x += 32) {
            input.sums[group] = (x[0] + x[1]) + (x[2] + x[3]);
            for (uint i = 0; i < 4; ++i) input.x[4 * group + i] = i % 2 == 0 ? x[i] : x[i] / 256.0f;
        }
    }

    static float dot(device const Q6_K* row, uint chunk, uint, thread const Input& input) {
        device const Q6_K& block = row[chunk / 16];
        const uint part = chunk % 16 / 8, j = chunk % 8 * 4;
        device const uint16_t* low = words(block.low + 64 * part + j);
        device const uint16_t* high = words(block.high + 32 * part + j);
        device const int8_t* scales = block.scales + 8 * part + j / 16;
        float sum = 0;
        for (uint group = 0; group < 4; ++group) {
            float products = -32.0f * input.sums[group];
            for (uint i = 0; i < 2; ++i) {
                const uint nibbles = low[group % 2 * 16 + i] >> (group / 2 * 4) & 0x0F0Fu;
                const uint codes = nibbles | (high[i] >> (group * 2) & 0x0303u) << 4;
                products += input.x[4 * group + 2 * i] * float(codes & 0xFFu);
                products += input.x[4 * group + 2 * i + 1] * float(codes & 0xFF00u);
            }
            sum += float(scales[2 * group]) * products;
        }
        return half_bits(block.scale) * sum;
    }
};

}  // namespace ferrule
