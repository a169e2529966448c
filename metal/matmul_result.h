// What matvec and matmul have in common, see csrc/params/matmul.h.
#pragma once
#include <metal_stdlib>

#include "../csrc/params/matmul.h"
#include "formats/all.h"

constant bool has_bias [[function_constant(ferrule::matmul::has_bias)]];
constant bool has_residual [[function_constant(ferrule::matmul::has_residual)]];

namespace ferrule {

// out[row, column] from the sum of products.
inline void store_result(float sum,
                         uint row,
                         uint column,
                         constant Matmul& params,
                         device const float* bias,
                         device const float* residual,
                         device float* out) {
    const ulong i = ulong(row) * params.n + column;
    float result = params.scale * sum;
    if (has_bias) result += bias[column];
    if (has_residual) result += residual[i];
    out[i] = result;
}

}  // namespace ferrule
