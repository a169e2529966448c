// Q6_K: a chunk is 4 values of each 32 of half a block.
#pragma once
#include "../../csrc/formats/q6_k.h"
#include "weight_format.h"

namespace ferrule {

template <>
struct WeightFormat<Q6_K> {
    enum : uint { kChunk = 16 };

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
            float four[4];
            load_inputs<4>(x, four);
            input.sums[group] = (four[0] + four[1]) + (four[2] + four[3]);
            for (uint i = 0; i < 4; ++i) input.x[4 * group + i] = i % 2 == 0 ? four[i] : four[i] / 256.0f;
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
