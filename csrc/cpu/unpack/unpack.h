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

// Element r of every lane is the f16 at `offset` of the r-th block.
inline simd::f32x16 repeat_f16_at(const uint8_t* const blocks[4], size_t offset) {
    const uint8_t* const p[4] = {blocks[0] + offset, blocks[1] + offset, blocks[2] + offset, blocks[3] + offset};
    return simd::repeat_f16(p);
}

// Where scales need more than a vector operation each: scale_of(group, row).
template <class ScaleOf>
inline simd::f32x16 each_scale(ScaleOf scale_of) {
    float scales[16];
    for (int i = 0; i < 16; ++i) scales[i] = scale_of(i / 4, i % 4);
    return simd::load(scales);
}

// 128 codes in their order.
inline Codes group_codes(const uint8_t* codes) {
    const simd::u8x64 a = simd::load(codes), b = simd::load(codes + 64);
    return {simd::even_then_even(a, b), simd::odd_then_odd(a, b)};
}

// Formats with blocks of 32 keep 32 codes in 16 bytes at `codes` bytes into the block.
template <size_t block_bytes>
inline simd::u8x64 load_nibbles(const uint8_t* block, size_t codes) {
    const uint8_t* p = block + codes;
    return simd::load4x16(p, p + block_bytes, p + 2 * block_bytes, p + 3 * block_bytes);
}

}  // namespace ferrule::cpu::FERRULE_ISA
