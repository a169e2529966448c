// linears, Metal's matrix products: up to three matrices times one x, side by side in one launch
//   p[r, j] = scale * sum_i(x[r, i] * weight[j, i]) + bias[j]
//   out = p + residual; out_b, of weight_b and bias_b, and out_c, of weight_c and bias_c, likewise without a residual
// or one that is activated, alone or with a value (up), or that gates another:
//   activated: out = act(p), out[r, j] = act(p[r, j]) * up[r, up_begin + j]
//   gated: out = act(p) * p_b
// x: f32 [rows, k]; weight, weight_b, weight_c: [n, k], [n_b, k], [n_c, k] in one weight format (the kernel's suffix),
// rows contiguous; biases: f32 [n], [n_b], [n_c]; out, out_b, out_c: f32 [rows, n], [rows, n_b], [rows, n_c]; residual:
// f32 [rows, n], may be out's memory; up: f32 [rows, up_stride]. An absent matrix has no rows. gated: n_b = n, and
// out_b is absent. activation: see activation.h. `matvec_<format>` serves one row, `matvec_rows_<format>` 2 to 8,
// `matmul_<format>` many. Sums are f32, in orders of each kernel's own that depend on nothing but sizes.
// split: whether matmul may share out the k products of a tile of a result among several threadgroups where there are
// too few tiles to occupy a GPU. The results are then left to linears_merge.h, which adds what these threadgroups find:
// partials, f32 [splits, tiles, product_tile::kSize].
#pragma once
#include "activation.h"
#include "metal_dispatch.h"
#include "product_tile.h"
#include "signature.h"

namespace ferrule {

struct Linears {
    uint32_t k;
    uint32_t n;
    uint32_t n_b;
    uint32_t n_c;
    float scale;
    uint32_t activated;
    uint32_t gated;
    uint32_t activation;
    uint32_t up_stride;
    uint32_t up_begin;
    uint32_t split;
};

namespace linears {

enum Operand { x, weight, bias, residual, out, weight_b, bias_b, out_b, weight_c, bias_c, out_c, up, partials };
enum Constant {
    has_bias,
    has_residual,
    has_weight_b,
    has_bias_b,
    has_out_b,
    has_out_c,
    has_bias_c,
    has_up,
    has_partials,
    fc_activated,
    fc_gated,
    fc_activation
};

// Weight rows that a simdgroup of matvec and matvec_rows takes, rows of x of matvec_rows.
FERRULE_CONSTANT uint32_t kMatvecSimdgroups = 2;
FERRULE_CONSTANT uint32_t kMatvecRows = 4;
FERRULE_CONSTANT uint32_t kMatvecRowsRows = 2;
FERRULE_CONSTANT uint32_t kMatvecColumns = 8;

// Threadgroups of matmul that occupy a large GPU, and the fewest products of a sum that are worth one more: its
// part of the weights is then as large as its partial sums.
FERRULE_CONSTANT uint32_t kOccupying = 128;
FERRULE_CONSTANT uint32_t kLeastDepth = 512;

// How many of the k products each of `splits` threadgroups adds up; the last one may have fewer.
inline constexpr uint32_t split_depth(uint32_t k, uint32_t splits) {
    return ceil_div(ceil_div(k, product_tile::kDepth), splits) * product_tile::kDepth;
}

// Among how many threadgroups the products of each of `tiles` tiles are split.
inline constexpr uint32_t splits(uint32_t tiles, uint32_t k) {
    const uint32_t wanted = kOccupying / tiles, most = k / kLeastDepth;
    if (wanted < 2 || most < 2) return 1;
    return ceil_div(k, split_depth(k, wanted < most ? wanted : most));
}

#ifndef __METAL_VERSION__
inline constexpr ParamField fields[] = {{"k", FieldType::u32, offsetof(Linears, k)},
                                        {"n", FieldType::u32, offsetof(Linears, n)},
                                        {"n_b", FieldType::u32, offsetof(Linears, n_b)},
                                        {"n_c", FieldType::u32, offsetof(Linears, n_c)},
                                        {"scale", FieldType::f32, offsetof(Linears, scale)},
                                        {"activated", FieldType::u32, offsetof(Linears, activated)},
                                        {"gated", FieldType::u32, offsetof(Linears, gated)},
                                        {"activation", FieldType::u32, offsetof(Linears, activation)},
                                        {"up_stride", FieldType::u32, offsetof(Linears, up_stride)},
                                        {"up_begin", FieldType::u32, offsetof(Linears, up_begin)},
                                        {"split", FieldType::u32, offsetof(Linears, split)}};
inline constexpr OperandInfo operands[] = {{"x", Access::read},
                                           {"weight", Access::read},
                                           {"bias", Access::read, true},
                                           {"residual", Access::read, true},
                                           {"out", Access::write},
                                           {"weight_b", Access::read, true},
                                           {"bias_b", Access::read, true},
                                           {"out_b", Access::write, true},
                                           {"weight_c", Access::read, true},
                                           {"bias_c", Access::read, true},
                                           {"out_c", Access::write, true},
                                           {"up", Access::read, true},
                                           {"partials", Access::write, true}};
inline constexpr OpSignature signature{"linears", sizeof(Linears), fields, operands};

// Tiles of so many weight rows: each is of one matrix, or half of the gate and half of what it gates.
inline constexpr uint32_t tiles(const Linears& params, uint32_t weight_rows) {
    if (params.gated) return ceil_div(params.n, weight_rows / 2);
    return ceil_div(params.n, weight_rows) + ceil_div(params.n_b, weight_rows) + ceil_div(params.n_c, weight_rows);
}

// matvec_<format>: a row of x for all rows of the weights.
inline constexpr MetalDispatch matvec_dispatch(const Linears& params, const LaunchSizes& sizes) {
    return {.x = tiles(params, kMatvecSimdgroups * kMatvecRows),
            .y = sizes.rows,
            .threads = kMatvecSimdgroups * kSimdWidth};
}

// matvec_rows_<format>: up to kMatvecColumns rows of x at once.
inline constexpr MetalDispatch matvec_rows_dispatch(const Linears& params, const LaunchSizes& sizes) {
    return {.x = tiles(params, kMatvecSimdgroups * kMatvecRowsRows),
            .y = ceil_div(sizes.rows, kMatvecColumns),
            .threads = kMatvecSimdgroups * kSimdWidth};
}

// matmul_<format>: a threadgroup per tile of the results and, in z, part of its products.
inline constexpr MetalDispatch matmul_dispatch(const Linears& params, const LaunchSizes& sizes) {
    const uint32_t rows = ceil_div(sizes.rows, product_tile::kRows), columns = tiles(params, product_tile::kColumns);
    return {.x = rows,
            .y = columns,
            .z = params.split ? splits(rows * columns, params.k) : 1,
            .threads = product_tile::kThreads};
}

// Floats of partial sums that suffice for any number of rows; 0 where few rows already have enough tiles.
inline constexpr uint32_t partials_size(const Linears& params) {
    return splits(tiles(params, product_tile::kColumns), params.k) > 1 ? kOccupying * product_tile::kSize : 0;
}
#endif

}  // namespace linears

}  // namespace ferrule
