#pragma once
#include "../../formats/q2_k.h"
#include "group_bytes.h"
#include "two_bits.h"
#include "unpack.h"

namespace ferrule::cpu::FERRULE_ISA {

struct UnpackQ2_K {
    using Block = formats::Q2_K;
    static constexpr bool kFull = false, kMinimums = true;
    static constexpr int kOffset = 0, kParts = 2;

    static Codes codes(const uint8_t* block, uint32_t half) {
        return two_bits(block + offsetof(Block, codes) + 32 * half);
    }
    static void scales(const uint8_t* const blocks[4], uint32_t half, Scales& out) {
        using namespace simd;
        const f32x16 scale = repeat_f16_at(blocks, offsetof(Block, scale));
        const f32x16 minimum = repeat_f16_at(blocks, offsetof(Block, minimum));
        const u8x64 bytes = bytes_at(blocks, offsetof(Block, scales));
        const i32x16 both[2] = {group_bytes<0>(bytes, half), group_bytes<1>(bytes, half)}, fifteen = set1(15);
        for (int part = 0; part < 2; ++part) {
            out.scale[part] = scale * to_f32(both[part] & fifteen);
            out.minimum[part] = zero_f32() - minimum * to_f32(both[part] >> 4 & fifteen);
        }
    }
};

}  // namespace ferrule::cpu::FERRULE_ISA
