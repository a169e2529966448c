// Latents of a block of the cache as attention needs them: transposed like keys, in f32.
#pragma once
#include "cache_layer.h"
#include "simd/simd.h"

namespace ferrule::cpu::FERRULE_ISA {

// 16 values of each of four rows of `stride` values to 16 rows of 64, of which `column` begins at four columns.
template <class T>
void transpose_4x16(const T* rows, uint32_t stride, float* column) {
    alignas(64) float values[4][16];
    for (uint32_t i = 0; i < 4; ++i) simd::store(values[i], load_f32(rows + size_t{i} * stride));
    simd::u8x64 columns[4];
    for (uint32_t i = 0; i < 4; ++i) columns[i] = simd::load(reinterpret_cast<const uint8_t*>(values[i]));
    transpose4x4(columns[0], columns[1], columns[2], columns[3]);
    const auto key = [&](uint32_t d) { return reinterpret_cast<uint8_t*>(column + d * kCacheBlock); };
    for (uint32_t d = 0; d < 4; ++d) store4x16(key(d), key(d + 4), key(d + 8), key(d + 12), columns[d]);
}

// latents: [64][rank]; out: [rank][64].
template <class T>
void transpose_latents(const T* latents, uint32_t rank, float* out) {
    const uint32_t whole = rank / 16 * 16;
    for (uint32_t p = 0; p < kCacheBlock; p += 4) {
        const T* rows = latents + size_t{p} * rank;
        for (uint32_t d = 0; d < whole; d += 16) transpose_4x16(rows + d, rank, out + size_t{d} * kCacheBlock + p);
        for (uint32_t d = whole; d < rank; ++d)
            for (uint32_t i = 0; i < 4; ++i)
                out[size_t{d} * kCacheBlock + p + i] = as_float(rows[size_t{i} * rank + d]);
    }
}

// `rows` rows of 64 values to f32.
template <class T>
void widen_rows(const T* from, uint32_t rows, float* out) {
    for (uint32_t i = 0; i < rows * kCacheBlock; i += 16) simd::store(out + i, load_f32(from + i));
}

}  // namespace ferrule::cpu::FERRULE_ISA
