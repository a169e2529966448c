// All weight formats: the one table of their names and sizes.
#pragma once
#include <cstdint>

#include "bf16.h"
#include "f16.h"
#include "f32.h"
#include "q4_0.h"
#include "q4_1.h"
#include "q4_k.h"
#include "q5_0.h"
#include "q5_1.h"
#include "q5_k.h"
#include "q6_k.h"
#include "q8_0.h"

namespace ferrule::formats {

struct FormatInfo {
    const char* name;
    uint32_t elements;  // values per block
    uint32_t bytes;     // per block
    uint32_t ggml_type;
};

template <class Block>
constexpr FormatInfo info(const char* name) {
    return {name, Block::kElements, sizeof(Block), Block::kGgmlType};
}

inline constexpr FormatInfo kFormats[] = {
    info<F32>("F32"),   info<F16>("F16"),   info<BF16>("BF16"), info<Q4_0>("Q4_0"),
    info<Q4_1>("Q4_1"), info<Q5_0>("Q5_0"), info<Q5_1>("Q5_1"), info<Q8_0>("Q8_0"),
    info<Q4_K>("Q4_K"), info<Q5_K>("Q5_K"), info<Q6_K>("Q6_K"),
};

}  // namespace ferrule::formats
