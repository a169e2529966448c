// Every quantised weight format that the matmul kernels serve.
#pragma once
#include "../../formats/formats.h"
#include "grids.h"
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

namespace ferrule::cpu::FERRULE_ISA {

template <class... Unpack>
struct Unpackers {};

using AllUnpackers =
    Unpackers<UnpackQ4_0, UnpackQ4_1, UnpackQ5_0, UnpackQ5_1, UnpackQ8_0, UnpackQ2_K, UnpackQ3_K, UnpackQ4_K,
              UnpackQ5_K, UnpackQ6_K, UnpackIQ1_S, UnpackIQ1_M, UnpackIQ2_XXS, UnpackIQ2_XS, UnpackIQ2_S, UnpackIQ3_XXS,
              UnpackIQ3_S, UnpackIQ4_NL, UnpackIQ4_XS, UnpackTQ1_0, UnpackTQ2_0, UnpackMXFP4, UnpackNVFP4>;

// Whether these are the quantised formats in their order.
template <class... Unpack>
consteval bool are_all(Unpackers<Unpack...>) {
    size_t i = formats::kFloatFormats;
    return ((formats::kFormats[i++].ggml_type == Unpack::Block::kGgmlType) && ...) && i == formats::kFormats.size();
}
static_assert(are_all(AllUnpackers{}));

}  // namespace ferrule::cpu::FERRULE_ISA
