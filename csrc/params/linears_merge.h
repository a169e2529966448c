// linears_merge: the second half of a matmul whose products were split (linears.h): its results from its partial sums,
// which are added in the order of their parts. Operands and parameters are those of the first half. Where that was not
// split, there is nothing to do.
#pragma once
#include "linears.h"

namespace ferrule {

namespace linears_merge {

enum Operand { partials, bias, residual, out, bias_b, out_b, bias_c, out_c, up };

#ifndef __METAL_VERSION__
inline constexpr OperandInfo operands[] = {
    {"partials", Access::read},     {"bias", Access::read, true},   {"residual", Access::read, true},
    {"out", Access::write},         {"bias_b", Access::read, true}, {"out_b", Access::write, true},
    {"bias_c", Access::read, true}, {"out_c", Access::write, true}, {"up", Access::read, true}};
inline constexpr OpSignature signature{"linears_merge", sizeof(Linears), linears::fields, operands};

// A thread per value of a tile of the results, tiles in x and y.
inline constexpr MetalDispatch metal_dispatch(const Linears& params, const LaunchSizes& sizes) {
    const MetalDispatch first = linears::matmul_dispatch(params, sizes);
    if (first.z == 1) return {.x = 0};
    const uint32_t values = params.gated ? product_tile::kSize / 2 : product_tile::kSize;
    return {.x = first.x, .y = first.y, .z = values / product_tile::kThreads, .threads = product_tile::kThreads};
}
#endif

}  // namespace linears_merge

}  // namespace ferrule
