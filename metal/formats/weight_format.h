// How kernels read weights. For every block struct of csrc/formats there is a WeightFormat with
//   decode(row, first, k, values)  16 values of a row of k, from index `first`, a multiple of 16; zeros from k on
//   prepare, dot                   a matrix-vector product's share of one lane: kChunk values of a row, see below
//   Tile                           what matmul's tiles hold decoded values in
// Rows are pointers to a row's first block. Rows of float formats may have any length, those of others whole blocks.
//
// A chunk is what one lane takes at a time; a simdgroup's lanes take neighbouring chunks. The inputs of a chunk are
// read once, into an Input, and used for several rows of weights. Where codes are taken out of 16-bit words by masks,
// without shifts, a code that stands 4, 8 or 12 bits up in its word counts 16, 256 or 4096 times too much; its input is
// divided by as much beforehand, which is exact.
#pragma once
#include <metal_stdlib>

#include "../../csrc/formats/float16.h"

namespace ferrule {

using namespace ferrule::formats;

template <class Block>
struct WeightFormat;

// n values from x, which is 16-aligned, as rows are where weights come in blocks.
template <uint n>
inline void load_inputs(device const float* x, thread float* values) {
    for (uint i = 0; i < n; i += 4) {
        const float4 four = *(device const float4*)(x + i);
        for (uint j = 0; j < 4; ++j) values[i + j] = four[j];
    }
}

inline float half_bits(uint16_t bits) {
    return float(metal::as_type<half>(bits));
}

// `bytes` must be 2-aligned.
inline device const uint16_t* words(device const uint8_t* bytes) {
    return (device const uint16_t*)bytes;
}

}  // namespace ferrule
