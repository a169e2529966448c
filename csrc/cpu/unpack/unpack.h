// How the matmul kernels see a quantised weight format: a struct per format that takes a chunk of 128 inputs (4 groups
// of 32) of a row apart. `block` points at the block that the chunk begins in; `half` says which half of a block of
// 256.
//   codes(block, half)       unsigned codes; the weight is scale * (code - kOffset) + minimum
//   scales(blocks, half)     of the same chunk in four rows: element r of lane g belongs to group g of row r
// kFull: codes need all 8 bits (simd::full_codes); otherwise they are <= 127. kParts = 2: each half of a group, of 16
// values, has its own scale. kMinimums: scales() fills minimums too.
#pragma once
#include "../simd/simd.h"

namespace ferrule::cpu::FERRULE_ISA {

inline constexpr uint32_t kChunk = 128;

struct Codes {
    simd::u8x64 first;   // values 0-15 of group g in lane g
    simd::u8x64 second;  // values 16-31
};

struct Scales {
    simd::f32x16 scale[2];  // [part]
    simd::f32x16 minimum[2];
};

inline simd::u8x64 low_nibbles(simd::u8x64 a) {
    return a & simd::set1_u8(15);
}
inline simd::u8x64 high_nibbles(simd::u8x64 a) {
    return simd::shift_right<4>(a);
}

// Formats with blocks of 32 keep 32 codes in 16 bytes at `codes` bytes into the block.
template <size_t block_bytes>
inline simd::u8x64 load_nibbles(const uint8_t* block, size_t codes) {
    const uint8_t* p = block + codes;
    return simd::load4x16(p, p + block_bytes, p + 2 * block_bytes, p + 3 * block_bytes);
}

}  // namespace ferrule::cpu::FERRULE_ISA
