// Four rows of quantised weights, taken apart chunk by chunk.
#pragma once
#include "activation_rows.h"
#include "unpack/unpack.h"

namespace ferrule::cpu::FERRULE_ISA {

template <class Unpack>
class FourRows {
  public:
    using Block = typename Unpack::Block;
    static constexpr size_t kChunkBytes = sizeof(Block) * kChunk / Block::kElements;

    // Rows j .. j + 3 of [n, k]; rows beyond the last repeat it.
    FourRows(const uint8_t* weight, uint32_t n, uint32_t k, uint32_t j) : whole_chunks_(k / kChunk) {
        const size_t row_bytes = size_t{k} / Block::kElements * sizeof(Block);
        ahead_ = 4 * row_bytes;
        while (ahead_ < 4096) ahead_ *= 2;
        for (uint32_t r = 0; r < 4; ++r) rows_[r] = weight + row_bytes * min_u32(j + r, n - 1);
        if (k % kChunk == 0) return;
        // The last chunk is completed with blocks of zeros.
        const size_t begin = whole_chunks_ * kChunkBytes;
        for (uint32_t r = 0; r < 4; ++r) {
            __builtin_memset(tail_[r], 0, kChunkBytes);
            __builtin_memcpy(tail_[r], rows_[r] + begin, row_bytes - begin);
        }
    }

    Codes codes(uint32_t chunk, int r) const { return Unpack::codes(block(chunk, r), half(chunk)); }

    Scales scales(uint32_t chunk) const {
        const uint8_t* const blocks[4] = {block(chunk, 0), block(chunk, 1), block(chunk, 2), block(chunk, 3)};
        Scales scales;
        Unpack::scales(blocks, half(chunk), scales);
        return scales;
    }

    // Asks for the chunk's lines in the next four rows, or if rows are short in later ones, at least 4 KiB ahead: rows
    // are one stream of memory. Into the L2 cache, whose own prefetcher then has the fewest misses left.
    void prefetch(uint32_t chunk) const {
        for (int r = 0; r < 4; ++r)
            for (size_t line = 0; line < kChunkBytes; line += 64)
                simd::prefetch_l2(rows_[r] + ahead_ + chunk * kChunkBytes + line);
    }

  private:
    // The block that a chunk of row r begins in, and which half of it the chunk is.
    const uint8_t* block(uint32_t chunk, int r) const {
        if constexpr (Block::kElements > kChunk) return rows_[r] + chunk / 2 * sizeof(Block);
        return chunk < whole_chunks_ ? rows_[r] + chunk * kChunkBytes : tail_[r];
    }
    static uint32_t half(uint32_t chunk) { return Block::kElements > kChunk ? chunk % 2 : 0; }

    const uint8_t* rows_[4];
    uint32_t whole_chunks_;
    size_t ahead_;
    uint8_t tail_[4][kChunkBytes];
};

}  // namespace ferrule::cpu::FERRULE_ISA
