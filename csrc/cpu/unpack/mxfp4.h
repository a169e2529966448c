#pragma once
#include "../../formats/mxfp4.h"
#include "fp4_codes.h"
#include "unpack.h"

namespace ferrule::cpu::FERRULE_ISA {

struct UnpackMXFP4 {
    using Block = formats::MXFP4;
    static constexpr bool kFull = false, kMinimums = false;
    static constexpr int kOffset = kFp4Offset, kParts = 1;

    static Codes codes(const uint8_t* block, uint32_t) {
        const simd::u8x64 both = load_nibbles<sizeof(Block)>(block, offsetof(Block, codes));
        return {fp4_codes(low_nibbles(both)), fp4_codes(high_nibbles(both))};
    }
    static void scales(const uint8_t* const blocks[4], uint32_t, Scales& out) {
        out.scale[0] = each_scale(
            [&](int g, int r) { return formats::mxfp4_scale(blocks[r][static_cast<size_t>(g) * sizeof(Block)]); });
    }
};

}  // namespace ferrule::cpu::FERRULE_ISA
