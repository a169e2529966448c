// All weight formats: the one table of their names and sizes.
#pragma once
#include <cstdint>

#include "bf16.h"
#include "f16.h"
#include "f32.h"
#include "iq1_m.h"
#include "iq1_s.h"
#include "iq2_s.h"
#include "iq2_xs.h"
#include "iq2_xxs.h"
#include "iq3_s.h"
#include "iq3_xxs.h"
#include "iq4_nl.h"
#include "iq4_xs.h"
#include "mxfp4.h"
#include "nvfp4.h"
#include "q2_k.h"
#include "q3_k.h"
#include "q4_0.h"
#include "q4_1.h"
#include "q4_k.h"
#include "q5_0.h"
#include "q5_1.h"
#include "q5_k.h"
#include "q6_k.h"
#include "q8_0.h"
#include "tq1_0.h"
#include "tq2_0.h"

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
    info<F32>("F32"),       info<F16>("F16"),       info<BF16>("BF16"),       info<Q4_0>("Q4_0"),
    info<Q4_1>("Q4_1"),     info<Q5_0>("Q5_0"),     info<Q5_1>("Q5_1"),       info<Q8_0>("Q8_0"),
    info<Q2_K>("Q2_K"),     info<Q3_K>("Q3_K"),     info<Q4_K>("Q4_K"),       info<Q5_K>("Q5_K"),
    info<Q6_K>("Q6_K"),     info<IQ1_S>("IQ1_S"),   info<IQ1_M>("IQ1_M"),     info<IQ2_XXS>("IQ2_XXS"),
    info<IQ2_XS>("IQ2_XS"), info<IQ2_S>("IQ2_S"),   info<IQ3_XXS>("IQ3_XXS"), info<IQ3_S>("IQ3_S"),
    info<IQ4_NL>("IQ4_NL"), info<IQ4_XS>("IQ4_XS"), info<TQ1_0>("TQ1_0"),     info<TQ2_0>("TQ2_0"),
    info<MXFP4>("MXFP4"),   info<NVFP4>("NVFP4"),
};

}  // namespace ferrule::formats
