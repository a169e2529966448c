// What matvec, matmul and linears_merge have in common, see csrc/params/linears.h.
#pragma once
#include <metal_stdlib>

#include "../csrc/params/linears.h"
#include "activations.h"
#include "formats/all.h"

constant bool has_bias [[function_constant(ferrule::linears::has_bias)]];
constant bool has_residual [[function_constant(ferrule::linears::has_residual)]];
constant bool has_bias_b [[function_constant(ferrule::linears::has_bias_b)]];
constant bool has_out_b [[function_constant(ferrule::linears::has_out_b)]];
constant bool has_out_c [[function_constant(ferrule::linears::has_out_c)]];
constant bool has_bias_c [[function_constant(ferrule::linears::has_bias_c)]];
constant bool has_up [[function_constant(ferrule::linears::has_up)]];
constant uint fc_activated [[function_constant(ferrule::linears::fc_activated)]];
constant uint fc_gated [[function_constant(ferrule::linears::fc_gated)]];
constant uint fc_activation [[function_constant(ferrule::linears::fc_activation)]];

namespace ferrule {

// One of a launch's matrices with its bias (null where it has none) and result.
template <class Block>
struct Linear {
    device const Block* weight;
    device const float* bias;
    device float* out;
    uint n;
};

// Some columns of a result. `gated` is the matrix that `linear` gates, if it does.
template <class Block>
struct LinearTile {
    Linear<Block> linear, gated;
    uint first;
};

// Columns of the result for which so many rows of weights are multiplied.
inline uint result_columns(uint weight_rows) {
    return fc_gated ? weight_rows / 2 : weight_rows;
}

// Tile number `tile` of a launch, which counts the tiles of its matrices one after another.
template <class Block>
inline LinearTile<Block> find_tile(uint tile, uint weight_rows, Linear<Block> a, Linear<Block> b, Linear<Block> c) {
    const uint columns = result_columns(weight_rows);
    if (fc_gated) return {a, b, tile * columns};
    const uint end_a = (a.n + columns - 1) / columns, end_b = end_a + (b.n + columns - 1) / columns;
    if (has_out_c && tile >= end_b) return {c, c, (tile - end_b) * columns};
    if (has_out_b && tile >= end_a) return {b, b, (tile - end_a) * columns};
    return {a, a, tile * columns};
}

// Row `i` of the `weight_rows` that are multiplied for a tile: with a gate, its rows come first. The last row stands
// for those past the end, which are not stored.
template <class Block>
inline device const Block* weight_row(thread const LinearTile<Block>& tile, uint i, uint weight_rows, uint blocks) {
    const uint columns = result_columns(weight_rows);
    device const Block* weight = i < columns ? tile.linear.weight : tile.gated.weight;
    return weight + ulong(metal::min(tile.first + i % columns, tile.linear.n - 1)) * blocks;
}

// A value of the result from its sum of products and, with a gate, that of what is gated.
template <class Block>
inline void store_result(thread const LinearTile<Block>& tile,
                         uint row,
                         uint column,
                         float sum,
                         float gated,
                         constant Linears& params,
                         device const float* residual,
                         device const float* up) {
    device const float* bias = tile.linear.bias;
    device const float* gated_bias = tile.gated.bias;
    const ulong i = ulong(row) * tile.linear.n + column;
    sum *= params.scale;
    if (bias != nullptr) sum += bias[column];
    if (fc_activated != 0 || fc_gated != 0) sum = activate(Activation(fc_activation), sum);
    if (fc_gated) {
        gated *= params.scale;
        if (gated_bias != nullptr) gated += gated_bias[column];
        sum *= gated;
    }
    if (has_up) sum *= up[ulong(row) * params.up_stride + params.up_begin + column];
    if (has_residual) sum += residual[i];
    tile.linear.out[i] = sum;
}

}  // namespace ferrule
