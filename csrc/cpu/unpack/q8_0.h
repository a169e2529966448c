#pragma once
#include "../../formats/q8_0.h"
#include "unpack.h"

namespace ferrule::cpu::FERRULE_ISA {

struct UnpackQ8_0 {
    using Block = formats::Q8_0;
    static constexpr bool kFull = true, kMinimums = false;
    static constexpr int kOffset = simd::kFullCodeOffset, kParts = 1;

    static Codes codes(const uint8_t* block, uint32_t) {
        constexpr size_t codes = offsetof(Block, codes);
        return {simd::full_codes(load_nibbles<sizeof(Block)>(block, codes)),
                simd::full_codes(load_nibbles<sizeof(Block)>(block, codes + 16))};
    }
    static void scales(const uint8_t* const blocks[4], uint32_t, Scales& out) {
        out.scale[0] = simd::gather_f16(blocks, sizeof(Block));
    }
};

}  // namespace ferrule::cpu::FERRULE_ISA
