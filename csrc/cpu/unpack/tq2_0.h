#pragma once
#include "../../formats/tq2_0.h"
#include "two_bits.h"
#include "unpack.h"

namespace ferrule::cpu::FERRULE_ISA {

struct UnpackTQ2_0 {
    using Block = formats::TQ2_0;
    static constexpr bool kFull = false, kMinimums = false;
    static constexpr int kOffset = 1, kParts = 1;

    static Codes codes(const uint8_t* block, uint32_t half) {
        return two_bits(block + offsetof(Block, codes) + 32 * half);
    }
    static void scales(const uint8_t* const blocks[4], uint32_t, Scales& out) {
        out.scale[0] = repeat_f16_at(blocks, offsetof(Block, scale));
    }
};

}  // namespace ferrule::cpu::FERRULE_ISA
