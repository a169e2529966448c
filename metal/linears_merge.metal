// linears_merge, see csrc/params/linears_merge.h: a thread per value of a tile of the results.
#include <metal_stdlib>

#include "../csrc/params/linears_merge.h"
#include "linears.h"

using namespace metal;
using namespace ferrule;

kernel void linears_merge(device const float* partials [[buffer(linears_merge::partials)]],
                          device const float* bias [[buffer(linears_merge::bias), function_constant(has_bias)]],
                          device const float* residual
                          [[buffer(linears_merge::residual), function_constant(has_residual)]],
                          device float* out [[buffer(linears_merge::out)]],
                          device const float* bias_b [[buffer(linears_merge::bias_b), function_constant(has_bias_b)]],
                          device float* out_b [[buffer(linears_merge::out_b), function_constant(has_out_b)]],
                          device const float* bias_c [[buffer(linears_merge::bias_c), function_constant(has_bias_c)]],
                          device float* out_c [[buffer(linears_merge::out_c), function_constant(has_out_c)]],
                          device const float* up [[buffer(linears_merge::up), function_constant(has_up)]],
                          constant Linears& params [[buffer(params_buffer)]],
                          constant LaunchSizes& sizes [[buffer(sizes_buffer)]],
                          uint3 group [[threadgroup_position_in_grid]],
                          uint3 groups [[threadgroups_per_grid]],
                          uint thread_index [[thread_index_in_threadgroup]]) {
    // F32 stands for the format of the weights, of which none are read here.
    const LinearTile<F32> tile =
        find_tile<F32>(group.y, product_tile::kColumns, {nullptr, has_bias ? bias : nullptr, out, params.n},
                       {nullptr, has_bias_b ? bias_b : nullptr, out_b, params.n_b},
                       {nullptr, has_bias_c ? bias_c : nullptr, out_c, params.n_c});
    const uint columns = result_columns(product_tile::kColumns), i = group.z * product_tile::kThreads + thread_index;
    const uint r = i / columns, c = i % columns, row = group.x * product_tile::kRows + r, column = tile.first + c;
    if (row >= sizes.rows || column >= tile.linear.n) return;

    const uint tiles = groups.x * groups.y, splits = linears::splits(tiles, params.k);
    partials += (group.y * groups.x + group.x) * product_tile::kSize + r * product_tile::kColumns + c;
    float sum = 0, gated = 0;
    for (uint split = 0; split < splits; ++split) {
        sum += partials[0];
        if (fc_gated) gated += partials[columns];
        partials += tiles * product_tile::kSize;
    }
    store_result(tile, row, column, sum, gated, params, residual, up);
}
