// attention over latents, see csrc/params/attention.h: absorbed_attention for many rows, absorbed_attention_split for
// few (attention_split.h). All heads of a row read the same keys and values, so a threadgroup takes 8 heads as the rows
// of 8 x 8 matrices, and goes over the positions that the row sees, 64 at a time: its simdgroups share out the
// positions for the scores, the heads for the softmax, and the columns of the result. Sizes are filled up to multiples
// of 8 with zeros. Loops over matrices of the result are unrolled, for they live in registers.
#include <metal_stdlib>

#include "../csrc/params/attention.h"
#include "../csrc/params/attention_split.h"
#include "attention_scores.h"
#include "cache_matrix.h"

using namespace metal;
using namespace ferrule;

constant bool has_selected [[function_constant(attention::has_selected)]];
constant uint fc_head_dim [[function_constant(attention::fc_head_dim)]];
constant uint fc_v_head_dim [[function_constant(attention::fc_v_head_dim)]];

constant constexpr uint kHeads = attention::kTileRows, kSimdgroups = attention::kLatentSimdgroups;
constant constexpr uint kThreads = kSimdgroups * kSimdWidth;
constant constexpr uint kLanesPerHead = kThreads / kHeads;                       // in the softmax
constant constexpr uint kScoreMatrices = kCacheBlock / 8 / kSimdgroups;          // of a simdgroup
constant constexpr uint kMaxMatrices = attention::kMaxLatent / 8 / kSimdgroups;  // of the result, of a simdgroup
constant constexpr uint kNoSlot = 0xFFFFFFFF;

// Columns of a key: of its latent, which is the value too, and of all of it.
static uint latent_columns() {
    return attention::key_columns(fc_v_head_dim);
}
static uint all_columns() {
    return latent_columns() + attention::key_columns(fc_head_dim);
}

// A few heads of a row, and memory that the threadgroup shares.
struct Tile {
    uint row, head, n_heads;
    uint position;
    uint block_table_begin;
    threadgroup float* queries;  // [kHeads, all_columns()]
    threadgroup float* scores;   // [kHeads, kCacheBlock], then the softmax's weights
    threadgroup float* factors;  // [kHeads]
    threadgroup uint* slots;     // [kCacheBlock], of the positions; kNoSlot for none
    threadgroup float* matrix;   // [8, 8], of the simdgroup
};

static Tile make_tile(device const Span* spans, uint3 group, uint heads, uint simdgroup, threadgroup float* memory) {
    const Span span = find_span(spans, group.z);
    Tile tile;
    tile.row = group.z;
    tile.head = group.x * kHeads;
    tile.n_heads = min(kHeads, heads - tile.head);
    tile.position = span.position_begin + tile.row - span.row_begin;
    tile.block_table_begin = span.block_table_begin;
    tile.queries = memory;
    tile.scores = tile.queries + kHeads * all_columns();
    tile.factors = tile.scores + kHeads * kCacheBlock;
    tile.slots = (threadgroup uint*)(tile.factors + kHeads);
    tile.matrix = tile.factors + kHeads + kCacheBlock + 64 * simdgroup;
    return tile;
}

// What a thread has of the sums: of its head's softmax, and of some columns of the result.
struct Sums {
    float maximum, sum;
    simdgroup_float8x8 values[kMaxMatrices];
};

// Matrix n of a simdgroup begins at column 8 * (simdgroup + n * kSimdgroups); the last may lie past the end.
static uint matrices_per_simdgroup() {
    return (latent_columns() / 8 + kSimdgroups - 1) / kSimdgroups;
}

static void load_queries(device const float* q,
                         device const float* q_rotated,
                         uint heads,
                         float scale,
                         uint thread_index,
                         thread const Tile& tile) {
    const ulong first_head = ulong(tile.row) * heads + tile.head;
    for (uint i = thread_index; i < kHeads * all_columns(); i += kThreads) {
        const uint h = i / all_columns(), c = i % all_columns(), rotated = c - latent_columns();
        float value = 0;
        if (h < tile.n_heads) {
            if (c < fc_v_head_dim) value = q[(first_head + h) * fc_v_head_dim + c];
            if (c >= latent_columns() && rotated < fc_head_dim) {
                value = q_rotated[(first_head + h) * fc_head_dim + rotated];
            }
        }
        tile.queries[i] = scale * value;
    }
}

// Blocks of 64 of the positions that the row sees.
static uint count_blocks(uint top, thread const Tile& tile) {
    const uint n_positions = has_selected ? top : tile.position + 1;
    return (n_positions + kCacheBlock - 1) / kCacheBlock;
}

// The slots of 64 of the positions that the row sees, from number `first` on.
static void find_slots(device const int* block_table,
                       device const float* selected,
                       uint top,
                       uint first,
                       uint thread_index,
                       thread const Tile& tile) {
    if (thread_index >= kCacheBlock) return;
    const uint number = first + thread_index;
    int position = number <= tile.position ? int(number) : -1;
    if (has_selected) position = number < top ? int(selected[ulong(tile.row) * top + number]) : -1;
    uint slot = kNoSlot;
    if (position >= 0) {
        const uint block = block_table[tile.block_table_begin + uint(position) / kCacheBlock];
        slot = block * kCacheBlock + uint(position) % kCacheBlock;
    }
    tile.slots[thread_index] = slot;
}

template <class T>
static device const T* block_of(device const T* cache, uint slot) {
    return cache + cache_keys<T>(slot / kCacheBlock, 0, 1, fc_head_dim, fc_v_head_dim);
}

// Whether the keys of positions j to j + 7 lie in the cache as matrices.
template <class T>
static bool lie_together(thread const Tile& tile, uint j) {
    const bool whole = !is_coded<T>() && !has_selected && fc_head_dim % 8 == 0 && fc_v_head_dim % 8 == 0;
    return whole && tile.slots[j + 7] != kNoSlot;
}

// Columns [i, i + 8) of the keys of positions j to j + 7, one row each, gathered from anywhere; zeros for none.
template <class T>
static simdgroup_float8x8 gather(device const T* cache,
                                 thread const Tile& tile,
                                 uint j,
                                 uint i,
                                 bool transpose,
                                 uint lane) {
    for (uint e = lane; e < 64; e += kSimdWidth) {
        const uint slot = tile.slots[j + e / 8], c = i + e % 8, rotated = c - latent_columns();
        float value = 0;
        if (slot != kNoSlot) {
            device const T* keys = block_of(cache, slot);
            device const T* latents = keys + cache_elements<T>(fc_head_dim);
            const uint position = slot % kCacheBlock;
            if (c < fc_v_head_dim) value = value_at(latents, position, c, fc_v_head_dim);
            if (c >= latent_columns() && rotated < fc_head_dim) value = key_at(keys, position, rotated, fc_head_dim);
        }
        tile.matrix[e] = value;
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);
    simdgroup_float8x8 keys;
    simdgroup_load(keys, tile.matrix, 8, ulong2(0), transpose);
    simdgroup_barrier(mem_flags::mem_threadgroup);
    return keys;
}

// sum += left times columns [i, i + 8) of the keys of positions j to j + 7, one column each where `transpose`, as
// scores want it, else one row.
template <class T>
static void multiply(thread simdgroup_float8x8& sum,
                     thread const simdgroup_float8x8& left,
                     device const T* cache,
                     thread const Tile& tile,
                     uint j,
                     uint i,
                     bool transpose,
                     uint lane) {
    if (!lie_together<T>(tile, j)) {
        simdgroup_multiply_accumulate(sum, left, gather(cache, tile, j, i, transpose, lane), sum);
        return;
    }
    device const T* keys = block_of(cache, tile.slots[j]);
    const uint position = tile.slots[j] % kCacheBlock;
    if (i < latent_columns()) {
        device const T* latents = keys + cache_elements<T>(fc_head_dim) + position * fc_v_head_dim + i;
        multiply_stored(sum, left, latents, fc_v_head_dim, transpose);
    } else {
        multiply_stored(sum, left, keys + (i - latent_columns()) * kCacheBlock + position, kCacheBlock, false);
    }
}

// Scores of the simdgroup's share of the positions.
template <class T>
static void multiply_keys(device const T* cache, thread const Tile& tile, uint simdgroup, uint lane) {
    for (uint n = 0; n < kScoreMatrices; ++n) {
        const uint j = 8 * (simdgroup * kScoreMatrices + n);
        simdgroup_float8x8 sum = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
        for (uint i = 0; i < all_columns(); i += 8) {
            simdgroup_float8x8 query;
            simdgroup_load(query, tile.queries + i, all_columns());
            multiply(sum, query, cache, tile, j, i, true, lane);
        }
        simdgroup_store(sum, tile.scores + j, kCacheBlock);
    }
}

// Turns scores into weights of the online softmax, and leaves the factor for what was summed before.
static void update_softmax(thread Sums& sums, uint thread_index, thread const Tile& tile) {
    const uint h = thread_index / kLanesPerHead, lane = thread_index % kLanesPerHead;
    threadgroup float* scores = tile.scores + h * kCacheBlock;
    float maximum = sums.maximum;
    for (uint j = lane; j < kCacheBlock; j += kLanesPerHead) {
        if (tile.slots[j] != kNoSlot) maximum = max(maximum, scores[j]);
    }
    for (ushort mask = 1; mask < kLanesPerHead; mask *= 2) maximum = max(maximum, simd_shuffle_xor(maximum, mask));
    float sum = 0;
    for (uint j = lane; j < kCacheBlock; j += kLanesPerHead) {
        scores[j] = tile.slots[j] != kNoSlot ? precise::exp(scores[j] - maximum) : 0.0f;
        sum += scores[j];
    }
    for (ushort mask = 1; mask < kLanesPerHead; mask *= 2) sum += simd_shuffle_xor(sum, mask);
    const float factor = rescaling(sums.maximum, maximum);
    sums.maximum = maximum;
    sums.sum = sums.sum * factor + sum;
    if (lane == 0) tile.factors[h] = factor;
}

// Multiplies each head's values by its factor.
static void scale_values(thread Sums& sums, uint lane, thread const Tile& tile) {
    for (uint e = lane; e < 64; e += kSimdWidth) tile.matrix[e] = e / 8 == e % 8 ? tile.factors[e / 8] : 0.0f;
    simdgroup_barrier(mem_flags::mem_threadgroup);
    simdgroup_float8x8 factors;
    simdgroup_load(factors, tile.matrix, 8);
    simdgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
    for (uint n = 0; n < matrices_per_simdgroup(); ++n) simdgroup_multiply(sums.values[n], factors, sums.values[n]);
}

template <class T>
static void add_values(device const T* cache, thread Sums& sums, uint simdgroup, uint lane, thread const Tile& tile) {
    for (uint j = 0; j < kCacheBlock; j += 8) {
        if (!has_selected && tile.slots[j] == kNoSlot) break;
        simdgroup_float8x8 weights;
        simdgroup_load(weights, tile.scores + j, kCacheBlock);
#pragma unroll
        for (uint n = 0; n < matrices_per_simdgroup(); ++n) {
            const uint i = 8 * (simdgroup + n * kSimdgroups);
            if (i < latent_columns()) multiply(sums.values[n], weights, cache, tile, j, i, false, lane);
        }
    }
}

// Sums over blocks [begin, end) of 64 of the positions that the row sees.
template <class T>
static void attend(device const T* cache,
                   device const int* block_table,
                   device const float* selected,
                   uint top,
                   uint begin,
                   uint end,
                   uint thread_index,
                   uint simdgroup,
                   uint lane,
                   thread const Tile& tile,
                   thread Sums& sums) {
    sums.maximum = -INFINITY;
    sums.sum = 0;
#pragma unroll
    for (uint n = 0; n < matrices_per_simdgroup(); ++n) {
        sums.values[n] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    }
    for (uint block = begin; block < end; ++block) {
        find_slots(block_table, selected, top, block * kCacheBlock, thread_index, tile);
        threadgroup_barrier(mem_flags::mem_threadgroup);  // and the queries are loaded
        multiply_keys(cache, tile, simdgroup, lane);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        update_softmax(sums, thread_index, tile);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        scale_values(sums, lane, tile);
        add_values(cache, sums, simdgroup, lane, tile);
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
}

// Writes the heads' values, each head's `stride` after the one before.
static void store_values(thread const Sums& sums,
                         device float* out,
                         ulong stride,
                         uint simdgroup,
                         uint lane,
                         thread const Tile& tile) {
#pragma unroll
    for (uint n = 0; n < matrices_per_simdgroup(); ++n) {
        const uint i = 8 * (simdgroup + n * kSimdgroups);
        if (i >= latent_columns()) continue;
        simdgroup_store(sums.values[n], tile.matrix, 8);
        simdgroup_barrier(mem_flags::mem_threadgroup);
        for (uint e = lane; e < tile.n_heads * 8; e += kSimdWidth) {
            if (i + e % 8 < fc_v_head_dim) out[e / 8 * stride + i + e % 8] = tile.matrix[e];
        }
        simdgroup_barrier(mem_flags::mem_threadgroup);
    }
}

template <class T>
kernel void attend_whole(device const float* q [[buffer(attention::q)]],
                         device const float* q_rotated [[buffer(attention::q_rotated)]],
                         device const T* cache [[buffer(attention::cache)]],
                         device const Span* spans [[buffer(attention::spans)]],
                         device const int* block_table [[buffer(attention::block_table)]],
                         device const float* selected [[buffer(attention::selected), function_constant(has_selected)]],
                         device float* out [[buffer(attention::out)]],
                         constant Attention& params [[buffer(params_buffer)]],
                         threadgroup float* memory [[threadgroup(0)]],
                         uint3 group [[threadgroup_position_in_grid]],
                         uint thread_index [[thread_index_in_threadgroup]],
                         uint simdgroup [[simdgroup_index_in_threadgroup]],
                         uint lane [[thread_index_in_simdgroup]]) {
    const Tile tile = make_tile(spans, group, params.heads, simdgroup, memory);
    load_queries(q, q_rotated, params.heads, params.scale, thread_index, tile);
    Sums sums;
    attend(cache, block_table, has_selected ? selected : nullptr, params.top, 0, count_blocks(params.top, tile),
           thread_index, simdgroup, lane, tile, sums);
    if (thread_index % kLanesPerHead == 0) tile.factors[thread_index / kLanesPerHead] = 1.0f / sums.sum;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    scale_values(sums, lane, tile);
    out += (ulong(tile.row) * params.heads + tile.head) * fc_v_head_dim;
    store_values(sums, out, fc_v_head_dim, simdgroup, lane, tile);
}

template <class T>
kernel void attend_part(device const float* q [[buffer(attention_split::q)]],
                        device const float* q_rotated [[buffer(attention_split::q_rotated)]],
                        device const T* cache [[buffer(attention_split::cache)]],
                        device const Span* spans [[buffer(attention_split::spans)]],
                        device const int* block_table [[buffer(attention_split::block_table)]],
                        device const float* selected
                        [[buffer(attention_split::selected), function_constant(has_selected)]],
                        device float* partials [[buffer(attention_split::partials)]],
                        constant AttentionSplit& params [[buffer(params_buffer)]],
                        threadgroup float* memory [[threadgroup(0)]],
                        uint3 group [[threadgroup_position_in_grid]],
                        uint thread_index [[thread_index_in_threadgroup]],
                        uint simdgroup [[simdgroup_index_in_threadgroup]],
                        uint lane [[thread_index_in_simdgroup]]) {
    const Tile tile = make_tile(spans, group, params.heads, simdgroup, memory);
    load_queries(q, q_rotated, params.heads, params.scale, thread_index, tile);
    const uint n_blocks = count_blocks(params.top, tile), split = group.y;
    const uint blocks_per_split = (n_blocks + params.splits - 1) / params.splits;
    const uint begin = min(split * blocks_per_split, n_blocks), end = min(begin + blocks_per_split, n_blocks);
    Sums sums;
    attend(cache, block_table, has_selected ? selected : nullptr, params.top, begin, end, thread_index, simdgroup, lane,
           tile, sums);
    const uint size = fc_v_head_dim + 2, h = thread_index / kLanesPerHead;
    partials += ((ulong(tile.row) * params.heads + tile.head) * params.splits + split) * size;
    const ulong stride = ulong(params.splits) * size;
    if (thread_index % kLanesPerHead == 0 && h < tile.n_heads) {
        partials[h * stride + fc_v_head_dim] = sums.maximum;
        partials[h * stride + fc_v_head_dim + 1] = sums.sum;
    }
    if (begin < end) store_values(sums, partials, stride, simdgroup, lane, tile);
}

template [[host_name("absorbed_attention_f16")]] kernel decltype(attend_whole<half>) attend_whole<half>;
template [[host_name("absorbed_attention_f32")]] kernel decltype(attend_whole<float>) attend_whole<float>;
template [[host_name("absorbed_attention_q8_0")]] kernel decltype(attend_whole<int8_t>) attend_whole<int8_t>;

template [[host_name("absorbed_attention_split_f16")]] kernel decltype(attend_part<half>) attend_part<half>;
template [[host_name("absorbed_attention_split_f32")]] kernel decltype(attend_part<float>) attend_part<float>;
template [[host_name("absorbed_attention_split_q8_0")]] kernel decltype(attend_part<int8_t>) attend_part<int8_t>;
