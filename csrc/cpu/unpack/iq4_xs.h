#pragma once
#include "../../formats/iq4_xs.h"
#include "iq4_codes.h"
#include "unpack.h"

namespace ferrule::cpu::FERRULE_ISA {

struct UnpackIQ4_XS {
    using Block = formats::IQ4_XS;
    static constexpr bool kFull = true, kMinimums = false;
    static constexpr int kOffset = simd::kFullCodeOffset, kParts = 1;

    static Codes codes(const uint8_t* block, uint32_t half) {
        return iq4_codes(simd::load(block + offsetof(Block, codes) + 64 * half));
    }
    [[gnu::always_inline]] static void scales(const uint8_t* const blocks[4], uint32_t half, Scales& out) {
        using namespace simd;
        const i32x16 words = transpose_lanes(as_i32(load4x16(blocks[0], blocks[1], blocks[2], blocks[3])));
        const i32x16 first = repeat_lane<0>(words), second = repeat_lane<1>(words);  // scale, high bits; low bits
        const int h = static_cast<int>(half);
        const i32x16 low = shift_right_lanes<0, 4, 8, 12>(second >> 16 * h) & set1(15);
        const i32x16 high = shift_right_lanes<16, 18, 20, 22>(first >> 8 * h) & set1(3);
        out.scale[0] = low_f16(first) * to_f32((low | high << 4) - set1(32));
    }
};

}  // namespace ferrule::cpu::FERRULE_ISA
