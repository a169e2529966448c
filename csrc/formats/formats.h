// All weight formats: the one table of their names and sizes.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>

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

template <class T>
struct Format {
    using Block = T;
    const char* name;
};

inline constexpr size_t kFloatFormats = 3;  // the first ones, behind which the quantised ones are

inline constexpr std::tuple kBlocks{
    Format<F32>{"F32"},       Format<F16>{"F16"},       Format<BF16>{"BF16"},       Format<Q4_0>{"Q4_0"},
    Format<Q4_1>{"Q4_1"},     Format<Q5_0>{"Q5_0"},     Format<Q5_1>{"Q5_1"},       Format<Q8_0>{"Q8_0"},
    Format<Q2_K>{"Q2_K"},     Format<Q3_K>{"Q3_K"},     Format<Q4_K>{"Q4_K"},       Format<Q5_K>{"Q5_K"},
    Format<Q6_K>{"Q6_K"},     Format<IQ1_S>{"IQ1_S"},   Format<IQ1_M>{"IQ1_M"},     Format<IQ2_XXS>{"IQ2_XXS"},
    Format<IQ2_XS>{"IQ2_XS"}, Format<IQ2_S>{"IQ2_S"},   Format<IQ3_XXS>{"IQ3_XXS"}, Format<IQ3_S>{"IQ3_S"},
    Format<IQ4_NL>{"IQ4_NL"}, Format<IQ4_XS>{"IQ4_XS"}, Format<TQ1_0>{"TQ1_0"},     Format<TQ2_0>{"TQ2_0"},
    Format<MXFP4>{"MXFP4"},   Format<NVFP4>{"NVFP4"}};

// The block of the i-th format.
template <size_t i>
using BlockOf = typename std::tuple_element_t<i, decltype(kBlocks)>::Block;

inline constexpr auto kFormats = []<size_t... i>(std::index_sequence<i...>) {
    return std::array{
        FormatInfo{std::get<i>(kBlocks).name, BlockOf<i>::kElements, sizeof(BlockOf<i>), BlockOf<i>::kGgmlType}...};
}(std::make_index_sequence<std::tuple_size_v<decltype(kBlocks)>>{});

}  // namespace ferrule::formats
