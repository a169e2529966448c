// Q8_0: a chunk is 8 values, a quarter of a block.
#pragma once
#include "../../csrc/formats/q8_0.h"
#include "weight_format.h"

namespace ferrule {

template <>
struct WeightFormat<Q8_0> {
    enum : uint { kChunk = 8 };

    struct Input {
        float x[8];
    };

    static void decode(device const Q8_0* row, uint first, uint, thread float* values) {
        device const Q8_0& block = row[first / 32];
        const float scale = half_bits(block.scale);
        for (uint i = 0; i < 16; ++i) values[i] = scale * float(block.codes[first % 32 + i]);
    }

    static void prepare(device const float* x, uint chunk, uint, thread Input& input) {
        load_inputs<8>(x + 8 * chunk, input.x);
    }

    static float dot(device const Q8_0* row, uint chunk, uint, thread const Input& input) {
        device const Q8_0& block = row[chunk / 4];
        device const int8_t* codes = block.codes + chunk % 4 * 8;
        float sum = 0;
        for (uint i = 0; i < 8; ++i) sum += float(codes[i]) * input.x[i];
        return half_bits(block.scale) * sum;
    }
};

}  // namespace ferrule
