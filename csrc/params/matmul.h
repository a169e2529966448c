// matmul: out[r, j] = scale * sum_i(x[r, i] * weight[j, i]) + bias[j] + residual[r, j]
// x: [rows, k], f32 for float weights, else quantised rows (quantized_row.h); weight: [n, k] in a weight format (the
// kernel's suffix), rows contiguous; bias: f32 [n]; residual, out: f32 [rows, n] (may be the same memory).
// `matvec_<format>` serves few rows, `matmul_<format>` many; both sum in the same order, so their results are equal.
// `matvec_<format>_rounded` and `matmul_<format>_rounded`, of f16 and bf16 weights where the processor multiplies
// bfloat16, take rows of bfloat16 (quantized_row.h) and round f16 weights to it, to nearest, ties to even. Metal's
// products are described by linears.h.
//
// Order of summation, quantised weights, groups g of 32 inputs (formats with scales per 16 have two parts a
// group):
//   isum = exact integer dot product of codes (minus the format's integer offset times the sum of activation codes)
//   p[g % 4] = fma(float(isum), weight_scale * x_scale, p[g % 4]);  then, formats with minimums only:
//   p[g % 4] = fma(weight_min, x_scaled_sum, p[g % 4])
//   (two parts: both products, then both minimums, with x_scale * float(sum16) for x_scaled_sum)
//   result = ((p[0] + p[1]) + p[2]) + p[3]
// Float weights (f32, f16, bf16): lane l = i % 16 sums its inputs in order with fma; then lanes are added by halving
// (l += l + 8, + 4, + 2, + 1).
// Rounded: pairs of inputs i, i + 1 go to s[0] and s[1] in turn: s = fma(x[i + 1], w[i + 1], s), s = fma(x[i], w[i],
// s); result = s[0] + s[1]. Subnormal numbers count as zero.
#pragma once
#include "signature.h"

namespace ferrule {

struct Matmul {
    uint32_t k;
    uint32_t n;
    float scale;
    uint32_t planes;
};

namespace matmul {

enum Operand { x, weight, bias, residual, out };

inline constexpr ParamField fields[] = {{"k", FieldType::u32, offsetof(Matmul, k)},
                                        {"n", FieldType::u32, offsetof(Matmul, n)},
                                        {"scale", FieldType::f32, offsetof(Matmul, scale)},
                                        {"planes", FieldType::u32, offsetof(Matmul, planes)}};
inline constexpr OperandInfo operands[] = {{"x", Access::read},
                                           {"weight", Access::read},
                                           {"bias", Access::read, true},
                                           {"residual", Access::read, true},
                                           {"out", Access::write}};
inline constexpr OpSignature signature{"matmul", sizeof(Matmul), fields, operands};

}  // namespace matmul

}  // namespace ferrule
