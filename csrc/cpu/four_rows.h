// Four rows of quantised weights, taken apart step by step: a step is a block of 256 values, in two halves, or a chunk
// of several shorter blocks.
#pragma once
#include "activation_rows.h"
#include "unpack/unpack.h"

namespace ferrule::cpu::FERRULE_ISA {

template <class Unpack>
class FourRows {
  public:
    using Block = typename Unpack::Block;
    static constexpr uint32_t kHalves = Block::kElements > kChunk ? 2 : 1;  // chunks of a step
    static constexpr size_t kStepBytes = sizeof(Block) * kHalves * kChunk / Block::kElements;

    // Rows j .. j + 3 of [n, k]; rows beyond the last repeat it. `taken`: rows that are gone through together.
    FourRows(const uint8_t* weight, uint32_t n, uint32_t k, uint32_t j, uint32_t taken)
        : whole_steps_(k / (kHalves * kChunk)) {
        const size_t row_bytes = size_t{k} / Block::kElements * sizeof(Block);
        ahead_ = taken * row_bytes;
        while (ahead_ < 8192) ahead_ *= 2;
        for (uint32_t r = 0; r < 4; ++r) rows_[r] = weight + row_bytes * min_u32(j + r, n - 1);
        if (kHalves == 2 || k % kChunk == 0) return;
        // The last chunk is completed with what follows in memory, since it meets zeros of the activations, or at the
        // end of the matrix with blocks of zeros.
        const size_t begin = whole_steps_ * kStepBytes;
        if (row_bytes * (j + 3) + begin + kStepBytes <= row_bytes * n) {
            ++whole_steps_;
            return;
        }
        for (uint32_t r = 0; r < 4; ++r) {
            __builtin_memset(tail_[r], 0, kStepBytes);
            __builtin_memcpy(tail_[r], rows_[r] + begin, row_bytes - begin);
        }
    }

    // `half` is best a constant: a compiler then finds what both halves share.
    Codes codes(uint32_t step, uint32_t half, int r) const { return Unpack::codes(block(step, r), half); }

    Scales scales(uint32_t step, uint32_t half) const {
        const uint8_t* const blocks[4] = {block(step, 0), block(step, 1), block(step, 2), block(step, 3)};
        Scales scales;
        Unpack::scales(blocks, half, scales);
        return scales;
    }

    // Asks for the step's lines in the next rows, or if rows are short in later ones, at least 8 KiB ahead: rows are
    // one stream of memory. Into the L2 cache, whose own prefetcher then has the fewest misses left.
    void prefetch(uint32_t step) const {
        for (int r = 0; r < 4; ++r)
            for (size_t line = 0; line < kStepBytes; line += 64)
                simd::prefetch_l2(rows_[r] + ahead_ + step * kStepBytes + line);
    }

  private:
    const uint8_t* block(uint32_t step, int r) const {
        return kHalves == 2 || step < whole_steps_ ? rows_[r] + step * kStepBytes : tail_[r];
    }

    const uint8_t* rows_[4];
    uint32_t whole_steps_;
    size_t ahead_;
    uint8_t tail_[4][kHalves == 2 ? 1 : kStepBytes];
};

}  // namespace ferrule::cpu::FERRULE_ISA
