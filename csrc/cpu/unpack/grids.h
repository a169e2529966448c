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
    const float units[4] = {unit(rows[0]) * factor, unit(rows[1]) * factor, unit(rows[2]) * factor,
                            unit(rows[3]) * factor};
    for (int part = 0; part < parts; ++part) {
        const auto step_of = [&](int g, int r) { return step(rows[r], static_cast<int>(4 * half) + g, part); };
        out.scale[part] = simd::repeat4(units) * each_scale(step_of);
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
        const int g = static_cast<int>(4 * half);
        const uint32_t s0 = signs(block, g), s1 = signs(block, g + 1), s2 = signs(block, g + 2),
                       s3 = signs(block, g + 3);
        const uint64_t first = (s0 & 0xffff) | s1 << 16 | uint64_t{(s2 & 0xffff) | s3 << 16} << 32;
        const uint64_t second = s0 >> 16 | (s1 & 0xffff0000) | uint64_t{s2 >> 16 | (s3 & 0xffff0000)} << 32;
        return {with_signs(octets(block, g, 0), first), with_signs(octets(block, g, 2), second)};
    }
    static void scales(const uint8_t* const blocks[4], uint32_t half, Scales& out) {
        grid_scales<Block, parts>(blocks, half, 1.0f, out);
    }

  private:
    static simd::u8x64 octets(const Block& block, int g, int n) {
        return simd::set_octets(magnitudes(block, g, n), magnitudes(block, g, n + 1), magnitudes(block, g + 1, n),
                                magnitudes(block, g + 1, n + 1), magnitudes(block, g + 2, n),
                                magnitudes(block, g + 2, n + 1), magnitudes(block, g + 3, n),
                                magnitudes(block, g + 3, n + 1));
    }
    static simd::u8x64 with_signs(simd::u8x64 magnitude, uint64_t negative) {
        const simd::u8x64 flip = simd::spread_bits(negative);
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
        const int g = static_cast<int>(4 * half);
        return {octets(block, g, 0), octets(block, g, 2)};
    }
    static void scales(const uint8_t* const blocks[4], uint32_t half, Scales& out) {
        grid_scales<Block, parts>(blocks, half, 0.125f, out);
    }

  private:
    static uint64_t octet(const Block& block, int g, int n) {
        constexpr uint64_t two = 0x0202020202020202u;
        return entry(block, g, n) * 8 + (shifts_down(block, g, n) ? 0 : two);
    }
    static simd::u8x64 octets(const Block& block, int g, int n) {
        return simd::set_octets(octet(block, g, n), octet(block, g, n + 1), octet(block, g + 1, n),
                                octet(block, g + 1, n + 1), octet(block, g + 2, n), octet(block, g + 2, n + 1),
                                octet(block, g + 3, n), octet(block, g + 3, n + 1));
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
