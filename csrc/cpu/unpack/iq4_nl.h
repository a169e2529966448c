#pragma once
#include "../../formats/iq4_nl.h"
#include "iq4_codes.h"
#include "unpack.h"

namespace ferrule::cpu::FERRULE_ISA {

struct UnpackIQ4_NL {
    using Block = formats::IQ4_NL;
    static constexpr bool kFull = true, kMinimums = false;
    static constexpr int kOffset = simd::kFullCodeOffset, kParts = 1;

    static Codes codes(const uint8_t* block, uint32_t) {
        return iq4_codes(load_nibbles<sizeof(Block)>(block, offsetof(Block, codes)));
    }
    static void scales(const uint8_t* const blocks[4], uint32_t, Scales& out) {
        out.scale[0] = simd::gather_f16(blocks, sizeof(Block));
    }
};

}  // namespace ferrule::cpu::FERRULE_ISA
