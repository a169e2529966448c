#pragma once
#include "../../formats/nvfp4.h"
#include "fp4_codes.h"
#include "unpack.h"

namespace ferrule::cpu::FERRULE_ISA {

struct UnpackNVFP4 {
    using Block = formats::NVFP4;
    static constexpr bool kFull = false, kMinimums = false;
    static constexpr int kOffset = kFp4Offset, kParts = 2;

    static Codes codes(const uint8_t* block, uint32_t) {
        const uint8_t* p = block + offsetof(Block, codes);
        const simd::u8x64 both = simd::load4x16(p, p + 16, p + sizeof(Block), p + sizeof(Block) + 16);
        const simd::u8x64 low = low_nibbles(both), high = high_nibbles(both);
        return {fp4_codes(simd::low_halves(low, high)), fp4_codes(simd::high_halves(low, high))};
    }
    static void scales(const uint8_t* const blocks[4], uint32_t, Scales& out) {
        for (int part = 0; part < 2; ++part) {
            out.scale[part] = each_scale([&](int g, int r) {
                return formats::nvfp4_scale(blocks[r][static_cast<size_t>(g / 2) * sizeof(Block) + g % 2 * 2 + part]);
            });
        }
    }
};

}  // namespace ferrule::cpu::FERRULE_ISA
