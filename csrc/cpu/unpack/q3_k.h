#pragma once
#include "../../formats/q3_k.h"
#include "group_bytes.h"
#include "two_bits.h"
#include "unpack.h"

namespace ferrule::cpu::FERRULE_ISA {

struct UnpackQ3_K {
    using Block = formats::Q3_K;
    static constexpr bool kFull = false, kMinimums = false;
    static constexpr int kOffset = 4, kParts = 2;

    static Codes codes(const uint8_t* block, uint32_t half) {
        const Codes low = two_bits(block + offsetof(Block, low) + 32 * half);
        const simd::u8x64 bit = half == 0 ? simd::lanes4_u8(1, 2, 4, 8) : simd::lanes4_u8(16, 32, 64, 128);
        const simd::u8x64 four = simd::set1_u8(4);
        const uint8_t* high = block + offsetof(Block, high);
        return {low.first | (simd::test_bits(simd::repeat16(high), bit) & four),
                low.second | (simd::test_bits(simd::repeat16(high + 16), bit) & four)};
    }
    static void scales(const uint8_t* const blocks[4], uint32_t half, Scales& out) {
        using namespace simd;
        // The 16 bytes that end with the 12 bytes of scales and the factor.
        const u8x64 bytes = bytes_at(blocks, sizeof(Block) - 16);
        const f32x16 scale = repeat_f16_at(blocks, offsetof(Block, scale));
        out.scale[0] = scale * to_f32(group_scales<0>(bytes, half));
        out.scale[1] = scale * to_f32(group_scales<1>(bytes, half));
    }

  private:
    // Scale j = 8 half + 2g + part: a nibble of byte j % 8, two bits of byte 8 + j % 4 (formats/q3_k.h).
    template <int part>
    static simd::i32x16 group_scales(simd::u8x64 bytes, uint32_t half) {
        using namespace simd;
        static constexpr uint8_t b = 2 + part;
        static constexpr uint8_t low_order[16] = {b, 0, 0, 0, b + 2, 0, 0, 0, b + 4, 0, 0, 0, b + 6, 0, 0, 0};
        static constexpr uint8_t high_order[16] = {b + 8, 0, 0, 0, b + 10, 0, 0, 0, b + 8, 0, 0, 0, b + 10, 0, 0, 0};
        const i32x16 low = transpose_lanes(as_i32(lookup16(bytes, repeat16(low_order))));
        const i32x16 high = transpose_lanes(as_i32(lookup16(bytes, repeat16(high_order))));
        const i32x16 four_bits = low >> static_cast<int>(4 * half) & set1(15);
        const i32x16 two_bits = shift_right_lanes<0, 0, 2, 2>(high >> static_cast<int>(4 * half)) & set1(3);
        return (four_bits | two_bits << 4) - set1(32);
    }
};

}  // namespace ferrule::cpu::FERRULE_ISA
