// Latents of a block of the cache as attention needs them: transposed like keys, in f32.
#pragma once
#include "quantized_cache.h"
#include "simd/simd.h"

namespace ferrule::cpu::FERRULE_ISA {

// Four rows of 16 values to 16 rows of 64, of which `column` begins at four columns.
inline void transpose_4x16(const float (&values)[4][16], float* column) {
    simd::u8x64 columns[4];
    for (uint32_t i = 0; i < 4; ++i) columns[i] = simd::load(reinterpret_cast<const uint8_t*>(values[i]));
    transpose4x4(columns[0], columns[1], columns[2], columns[3]);
    const auto key = [&](uint32_t d) { return reinterpret_cast<uint8_t*>(column + d * kCacheBlock); };
    for (uint32_t d = 0; d < 4; ++d) store4x16(key(d), key(d + 4), key(d + 8), key(d + 12), columns[d]);
}

// The values of a block of the only head: [v_head_dim][64].
template <class T>
void transpose_latents(const CacheLayer<T>& cache, uint32_t block, float* out) {
    for (uint32_t p = 0; p < kCacheBlock; p += 4) {
        for (uint32_t d = 0; d < cache.v_head_dim; d += 16) {
            const uint32_t n = cache.v_head_dim - d < 16 ? cache.v_head_dim - d : 16;
            alignas(64) float values[4][16];
            for (uint32_t i = 0; i < 4; ++i) simd::store(values[i], cache.load_values(block, 0, p + i, d, n));
            float* column = out + size_t{d} * kCacheBlock + p;
            if (n == 16) {
                transpose_4x16(values, column);
            } else {
                for (uint32_t j = 0; j < n; ++j)
                    for (uint32_t i = 0; i < 4; ++i) column[size_t{j} * kCacheBlock + i] = values[i][j];
            }
        }
    }
}

}  // namespace ferrule::cpu::FERRULE_ISA
