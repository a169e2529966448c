// What formats do that decode chunks of 16 values before they multiply.
#pragma once
#include "weight_format.h"

namespace ferrule {

template <class Block>
struct DecodedFormat {
    enum : uint { kChunk = 16 };

    struct Input {
        float x[16];
    };

    static void prepare(device const float* x, uint chunk, uint, thread Input& input) {
        load_inputs<16>(x + 16 * chunk, input.x);
    }

    static float dot(device const Block* row, uint chunk, uint k, thread const Input& input) {
        float values[16], sum = 0;
        WeightFormat<Block>::decode(row, 16 * chunk, k, values);
        for (uint i = 0; i < 16; ++i) sum += values[i] * input.x[i];
        return sum;
    }
};

}  // namespace ferrule
