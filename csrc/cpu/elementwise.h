// Work items of kernels that treat [rows, width] as one run of values: blocks of 4096, small enough to share out one
// row of logits, large enough that one row of a hidden state is not cut up.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernel.h"

namespace ferrule::cpu::FERRULE_ISA {

inline constexpr size_t kBlockValues = 4096;

struct ValueRange {
    size_t begin;
    size_t end;
};

inline size_t value_count(const KernelArgs& args, uint32_t width) {
    return size_t{args.rows} * width;
}

inline uint32_t block_count(size_t values, size_t block = kBlockValues) {
    return static_cast<uint32_t>((values + block - 1) / block);
}

inline ValueRange block_values(uint32_t begin, uint32_t end, size_t values, size_t block = kBlockValues) {
    const size_t last = end * block;
    return {begin * block, last < values ? last : values};
}

}  // namespace ferrule::cpu::FERRULE_ISA
