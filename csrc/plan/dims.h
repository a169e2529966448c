// The sizes of a step. Every launch works on one of them.
#pragma once
#include <cstdint>

namespace ferrule {

struct Dims {
    uint32_t tokens;
    uint32_t rows;  // rows of logits wanted
    uint32_t sequences;
};

enum class RowDim : uint8_t { one, tokens, rows, sequences };

inline constexpr uint32_t row_count(RowDim dim, const Dims& dims) {
    switch (dim) {
        case RowDim::tokens:
            return dims.tokens;
        case RowDim::rows:
            return dims.rows;
        case RowDim::sequences:
            return dims.sequences;
        case RowDim::one:
            break;
    }
    return 1;
}

}  // namespace ferrule
