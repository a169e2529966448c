// A plan: the launches of one forward step, in order, with every operand resolved to a place.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "dims.h"

namespace ferrule {

enum class OperandKind : uint8_t { none, weight, table, arena, cache, input, output };

struct Operand {
    OperandKind kind = OperandKind::none;
    uint32_t index = 0;   // of the weight, table, input or output
    uint64_t offset = 0;  // bytes, from the start of the weight, arena, cache, input or output
    uint64_t bytes = 0;  // extent at the plan's largest dims; 0 where only the caller knows (input, output); of a table
                         // what one row reads through it; of a cache layer its blocks, between which others' lie
};

inline constexpr size_t kMaxOperands = 13;
inline constexpr size_t kMaxParamsBytes = 96;
inline constexpr uint64_t kOperandAlignment = 64;  // of offsets into the arena and the cache

struct Launch {
    std::string kernel;
    std::vector<Operand> operands;
    alignas(16) std::array<std::byte, kMaxParamsBytes> params{};
    uint32_t params_bytes = 0;
    RowDim rows = RowDim::tokens;
    bool barrier = true;  // wait for all earlier launches first
};

struct Plan {
    std::vector<Launch> launches;
    std::vector<std::vector<uint32_t>> tables;  // weights; the executor gives kernels their addresses, u64
    uint64_t arena_bytes = 0;
    Dims max_dims{};
    uint32_t n_inputs = 0;
    uint32_t n_outputs = 0;
};

}  // namespace ferrule
