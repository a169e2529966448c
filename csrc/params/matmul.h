// matmul: out[r, j] = scale * sum_i(x[r, i] * weight[j, i]) + bias[j] + residual[r, j]
// x: [rows, k], f32 for float weights and on Metal, else quantised rows (quantized_row.h); weight: [n, k] in a weight
// format (the kernel's suffix), rows contiguous; bias: f32 [n]; residual, out: f32 [rows, n] (may be the same memory).
// `matvec_<format>` serves few rows, `matmul_<format>` many; on the CPU both sum in the same order, so their results
// are equal. Metal sums f32 in orders of its own and has `matvec_rows_<format>` for 2 to 8 rows.
//
// Order of summation on the CPU, quantised weights, groups g of 32 inputs (formats with scales per 16 have two parts a
// group):
//   isum = exact integer dot product of codes (minus the format's integer offset times the sum of activation codes)
//   p[g % 4] = fma(float(isum), weight_scale * x_scale, p[g % 4]);  then, formats with minimums only:
//   p[g % 4] = fma(weight_min, x_scaled_sum, p[g % 4])
//   (two parts: both products, then both minimums, with x_scale * float(sum16) for x_scaled_sum)
//   result = ((p[0] + p[1]) + p[2]) + p[3]
// Float weights (f32, f16, bf16): lane l = i % 16 sums its inputs in order with fma; then lanes are added by halving
// (l += l + 8, + 4, + 2, + 1).
#pragma once
#include "metal_dispatch.h"
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
enum Constant { has_bias, has_residual };

// Metal: weight rows that a simdgroup of matvec and matvec_rows takes, rows of x of matvec_rows, tiles of matmul.
FERRULE_CONSTANT uint32_t kMatvecSimdgroups = 2;
FERRULE_CONSTANT uint32_t kMatvecRows = 4;
FERRULE_CONSTANT uint32_t kMatvecRowsRows = 2;
FERRULE_CONSTANT uint32_t kMatvecColumns = 8;
FERRULE_CONSTANT uint32_t kTileN = 64;
FERRULE_CONSTANT uint32_t kTileRows = 32;
FERRULE_CONSTANT uint32_t kTileK = 32;
FERRULE_CONSTANT uint32_t kMatmulThreads = 128;

#ifndef __METAL_VERSION__
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

// matvec_<format>: a row of x for all rows of the weights.
inline constexpr MetalDispatch matvec_dispatch(const Matmul& params, const LaunchSizes& sizes) {
    return {.x = ceil_div(params.n, kMatvecSimdgroups * kMatvecRows),
            .y = sizes.rows,
            .threads = kMatvecSimdgroups * kSimdWidth};
}

// matvec_rows_<format>: up to kMatvecColumns rows of x at once.
inline constexpr MetalDispatch matvec_rows_dispatch(const Matmul& params, const LaunchSizes& sizes) {
    return {.x = ceil_div(params.n, kMatvecSimdgroups * kMatvecRowsRows),
            .y = ceil_div(sizes.rows, kMatvecColumns),
            .threads = kMatvecSimdgroups * kSimdWidth};
}

// matmul_<format>: a threadgroup per tile of out.
inline constexpr MetalDispatch matmul_dispatch(const Matmul& params, const LaunchSizes& sizes) {
    return {.x = ceil_div(sizes.rows, kTileRows), .y = ceil_div(params.n, kTileN), .threads = kMatmulThreads};
}
#endif

}  // namespace matmul

}  // namespace ferrule
