#pragma once
#include "../../formats/q4_k.h"
#include "k_scales.h"
#include "unpack.h"

namespace ferrule::cpu::FERRULE_ISA {

struct UnpackQ4_K {
    using Block = formats::Q4_K;
    static constexpr bool kFull = false, kMinimums = true;
    static constexpr int kOffset = 0, kParts = 1;

    static Codes codes(const uint8_t* block, uint32_t half) {
        return nibbles_by_64(block + offsetof(Block, codes) + 64 * half);
    }
    [[gnu::always_inline]] static void scales(const uint8_t* const blocks[4], uint32_t half, Scales& out) {
        unpack_k_scales(blocks, half, out);
    }
};

}  // namespace ferrule::cpu::FERRULE_ISA
