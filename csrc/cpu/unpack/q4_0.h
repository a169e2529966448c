#pragma once
#include "../../formats/q4_0.h"
#include "unpack.h"

namespace ferrule::cpu::FERRULE_ISA {

struct UnpackQ4_0 {
    using Block = formats::Q4_0;
    static constexpr bool kFull = false, kMinimums = false;
    static constexpr int kOffset = 8, kParts = 1;

    static Codes codes(const uint8_t* block, uint32_t) {
        const simd::u8x64 both = load_nibbles<sizeof(Block)>(block, offsetof(Block, codes));
        return {low_nibbles(both), high_nibbles(both)};
    }
    static void scales(const uint8_t* const blocks[4], uint32_t, Scales& out) {
        out.scale[0] = simd::gather_f16(blocks, sizeof(Block));
    }
};

}  // namespace ferrule::cpu::FERRULE_ISA
