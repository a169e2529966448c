#pragma once
#include "../../formats/q4_1.h"
#include "unpack.h"

namespace ferrule::cpu::FERRULE_ISA {

struct UnpackQ4_1 {
    using Block = formats::Q4_1;
    static constexpr bool kFull = false, kMinimums = true;
    static constexpr int kOffset = 0, kParts = 1;

    static Codes codes(const uint8_t* block, uint32_t) {
        const simd::u8x64 both = load_nibbles<sizeof(Block)>(block, offsetof(Block, codes));
        return {low_nibbles(both), high_nibbles(both)};
    }
    static void scales(const uint8_t* const blocks[4], uint32_t, Scales& out) {
        const simd::i32x16 pairs = simd::gather_words(blocks, sizeof(Block));
        out.scale[0] = simd::low_f16(pairs);
        out.minimum[0] = simd::high_f16(pairs);
    }
};

}  // namespace ferrule::cpu::FERRULE_ISA
