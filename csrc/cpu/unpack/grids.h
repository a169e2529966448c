// IQ formats: values from codebooks (formats/grids.h).
#pragma once
#include "../../formats/iq1_m.h"
#include "../../formats/iq1_s.h"
#include "../../formats/iq2_s.h"
#include "../../formats/iq2_xs.h"
#include "../../formats/iq2_xxs.h"
#include "../../formats/iq3_s.h"
#include "../../formats/iq3_xxs.h"
#include "unpack.h"

namespace ferrule::cpu::FERRULE_ISA {

template <class Block>
inline Block copy_block(const uint8_t* p) {
    Block block;
    __builtin_memcpy(&block, p, sizeof block);
    return block;
}

// Scales of half a block in four rows, `parts` of them per group.
template <class GridBlock, int parts>
inline void grid_scales(const uint8_t* const blocks[4], uint32_t half, float factor, Scales& out) {
    const GridBlock rows[4] = {copy_block<GridBlock>(blocks[0]), copy_block<GridBlock>(blocks[1]),
                               copy_block<GridBlock>(blocks[2]), copy_block<GridBlock>(blocks[3])};
    for (int part = 0; part < parts; ++part) {
        out.scale[part] =
            each_scale([&](int g, int r) { return scale(rows[r], static_cast<int>(4 * half) + g, part) * factor; });
    }
}

// Magnitudes of at most 63 with signs.
template <class GridBlock, int parts>
struct UnpackSignedGrid {
    using Block = GridBlock;
    static constexpr bool kFull = false, kMinimums = false;
    static constexpr int kOffset = 64, kParts = parts;

    static Codes codes(const uint8_t* p, uint32_t half) {
        const Block block = copy_block<Block>(p);
        uint64_t values[2][8], negative[2] = {0, 0};  // of the first and second halves of groups
        for (int i = 0; i < 16; ++i) {
            const int g = static_cast<int>(4 * half) + i / 4, n = i % 4, at = i / 4 * 2 + n % 2;
            values[n / 2][at] = magnitudes(block, g, n);
            negative[n / 2] |= uint64_t{signs(block, g, n)} << 8 * at;
        }
        return {with_signs(values[0], negative[0]), with_signs(values[1], negative[1])};
    }
    static void scales(const uint8_t* const blocks[4], uint32_t half, Scales& out) {
        grid_scales<Block, parts>(blocks, half, 1.0f, out);
    }

  private:
    static simd::u8x64 with_signs(const uint64_t (&values)[8], uint64_t negative) {
        const simd::u8x64 flip = simd::spread_bits(negative);
        const simd::u8x64 magnitude = simd::load(reinterpret_cast<const uint8_t*>(values));
        return ((magnitude ^ flip) - flip) + simd::set1_u8(kOffset);
    }
};

// Ternary values shifted by an eighth: eight times such a value is a whole number from -9 to 9.
template <class GridBlock, int parts>
struct UnpackTernaryGrid {
    using Block = GridBlock;
    static constexpr bool kFull = false, kMinimums = false;
    static constexpr int kOffset = 9, kParts = parts;

    static Codes codes(const uint8_t* p, uint32_t half) {
        const Block block = copy_block<Block>(p);
        constexpr uint64_t two = 0x0202020202020202u;
        uint64_t values[2][8];
        for (int i = 0; i < 16; ++i) {
            const int g = static_cast<int>(4 * half) + i / 4, n = i % 4;
            values[n / 2][i / 4 * 2 + n % 2] = entry(block, g, n) * 8 + (shifts_down(block, g, n) ? 0 : two);
        }
        return {simd::load(reinterpret_cast<const uint8_t*>(values[0])),
                simd::load(reinterpret_cast<const uint8_t*>(values[1]))};
    }
    static void scales(const uint8_t* const blocks[4], uint32_t half, Scales& out) {
        grid_scales<Block, parts>(blocks, half, 0.125f, out);
    }
};

using UnpackIQ1_S = UnpackTernaryGrid<formats::IQ1_S, 1>;
using UnpackIQ1_M = UnpackTernaryGrid<formats::IQ1_M, 2>;
using UnpackIQ2_XXS = UnpackSignedGrid<formats::IQ2_XXS, 1>;
using UnpackIQ2_XS = UnpackSignedGrid<formats::IQ2_XS, 2>;
using UnpackIQ2_S = UnpackSignedGrid<formats::IQ2_S, 2>;
using UnpackIQ3_XXS = UnpackSignedGrid<formats::IQ3_XXS, 1>;
using UnpackIQ3_S = UnpackSignedGrid<formats::IQ3_S, 1>;

}  // namespace ferrule::cpu::FERRULE_ISA
