// F32, F16, BF16: chunks of 4 values.
#pragma once
#include "../../csrc/formats/bf16.h"
#include "../../csrc/formats/f16.h"
#include "../../csrc/formats/f32.h"
#include "weight_format.h"

namespace ferrule {

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

    // Values past the end are 0 in x and the last one in the weights: with a branch in every row's product, rows would
    // wait for each other's loads.
    static void prepare(device const float* x, uint chunk, uint k, thread Input& input) {
        const uint first = 4 * chunk;
        for (uint i = 0; i < 4; ++i) input.x[i] = first + i < k ? x[first + i] : 0.0f;
    }

    static float dot(device const Block* row, uint chunk, uint k, thread const Input& input) {
        const uint first = 4 * chunk;
        float sum = 0;
        for (uint i = 0; i < 4; ++i) sum += to_float(row[metal::min(first + i, k - 1)]) * input.x[i];
        return sum;
    }
};

template <>
struct WeightFormat<F32> : FloatFormat<F32> {};
template <>
struct WeightFormat<F16> : FloatFormat<F16> {};
template <>
struct WeightFormat<BF16> : FloatFormat<BF16> {};

}  // namespace ferrule
