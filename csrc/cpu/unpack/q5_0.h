#pragma once
#include "../../formats/q5_0.h"
#include "fifth_bits.h"
#include "unpack.h"

namespace ferrule::cpu::FERRULE_ISA {

struct UnpackQ5_0 {
    using Block = formats::Q5_0;
    static constexpr bool kFull = false, kMinimums = false;
    static constexpr int kOffset = 16, kParts = 1;

    static Codes codes(const uint8_t* block, uint32_t) {
        const simd::u8x64 low = load_nibbles<sizeof(Block)>(block, offsetof(Block, low));
        return with_fifth_bits<sizeof(Block)>(low, block + offsetof(Block, high));
    }
    static void scales(const uint8_t* const blocks[4], uint32_t, Scales& out) {
        out.scale[0] = simd::gather_f16(blocks, sizeof(Block));
    }
};

}  // namespace ferrule::cpu::FERRULE_ISA
