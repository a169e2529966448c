// expert_order, see csrc/params/expert_order.h: a simdgroup per expert counts the slots of the experts before it, and
// lists its own; its lanes take neighbouring slots.
#include <metal_stdlib>

#include "experts.h"

using namespace metal;
using namespace ferrule;

constant bool has_routes [[function_constant(expert_order::has_routes)]];

kernel void expert_order(device const float* routes [[buffer(expert_order::routes), function_constant(has_routes)]],
                         device uint* out [[buffer(expert_order::out)]],
                         constant ExpertOrder& params [[buffer(params_buffer)]],
                         constant LaunchSizes& sizes [[buffer(sizes_buffer)]],
                         uint2 group [[threadgroup_position_in_grid]],
                         uint lane [[thread_index_in_simdgroup]]) {
    const uint expert = group.x, n_slots = sizes.rows * params.slots;
    uint n_before = 0, n_own = 0;
    for (uint slot = lane; slot < n_slots; slot += kSimdWidth) {
        const uint chosen = has_routes ? expert_of(routes, slot, params.slots) : slot % params.slots;
        n_before += chosen < expert ? 1 : 0;
        n_own += chosen == expert ? 1 : 0;
    }
    const uint begin = simd_sum(n_before), end = begin + simd_sum(n_own);

    for (uint first = 0, next = begin; next < end; first += kSimdWidth) {
        const uint slot = first + lane;
        uint is_own = 0;
        if (slot < n_slots) {
            is_own = (has_routes ? expert_of(routes, slot, params.slots) : slot % params.slots) == expert ? 1 : 0;
        }
        const uint place = next + simd_prefix_exclusive_sum(is_own);
        if (is_own != 0) out[place] = slot;
        next += simd_sum(is_own);
    }

    device ExpertTile* tiles = (device ExpertTile*)(out + n_slots);
    const uint first_tile = expert_order::first_tile(expert, begin);
    const uint n_tiles = expert_order::first_tile(expert + 1, end) - first_tile;
    for (uint i = lane; i < n_tiles; i += kSimdWidth) {
        const uint tile_begin = min(begin + i * product_tile::kRows, end);
        tiles[first_tile + i].expert = expert;
        tiles[first_tile + i].begin = tile_begin;
        tiles[first_tile + i].end = min(tile_begin + product_tile::kRows, end);
    }
}
