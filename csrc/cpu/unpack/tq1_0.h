#pragma once
#include "../../formats/tq1_0.h"
#include "unpack.h"

namespace ferrule::cpu::FERRULE_ISA {

struct UnpackTQ1_0 {
    using Block = formats::TQ1_0;
    static constexpr bool kFull = false, kMinimums = false;
    static constexpr int kOffset = 1, kParts = 1;

    static Codes codes(const uint8_t* block, uint32_t half) {
        Block b;
        __builtin_memcpy(&b, block, sizeof b);
        uint8_t codes[kChunk];
        for (uint32_t i = 0; i < kChunk; ++i) codes[i] = formats::code_at(b, static_cast<int>(kChunk * half + i));
        return group_codes(codes);
    }
    static void scales(const uint8_t* const blocks[4], uint32_t, Scales& out) {
        out.scale[0] = repeat_f16_at(blocks, offsetof(Block, scale));
    }
};

}  // namespace ferrule::cpu::FERRULE_ISA
