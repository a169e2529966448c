// attention, see csrc/params/attention.h: for many rows. A simdgroup takes 8 rows of a sequence and one head, and goes
// over the blocks of 64 positions that they see with 8 x 8 matrices; keys lie transposed in the cache, so that keys and
// values are both read as they lie; matrices of which only a part exists are filled up with zeros. Loops over matrices
// are unrolled, for matrices live in registers. (Flash attention: Dao et al. 2022.)
#include <metal_stdlib>

#include "../csrc/params/attention.h"
#include "attention_scores.h"
#include "cache_matrix.h"

using namespace metal;
using namespace ferrule;

constant bool has_sinks [[function_constant(attention::has_sinks)]];
constant bool has_slopes [[function_constant(attention::has_slopes)]];
constant uint fc_head_dim [[function_constant(attention::fc_head_dim)]];
constant uint fc_v_head_dim [[function_constant(attention::fc_v_head_dim)]];
constant uint fc_window [[function_constant(attention::fc_window)]];
constant uint fc_chunk [[function_constant(attention::fc_chunk)]];
constant float fc_softcap [[function_constant(attention::fc_softcap)]];

constant constexpr uint kChunk = 8;  // positions of one matrix
constant constexpr uint kMaxValueMatrices = attention::kMaxValues / 8;
constant constexpr uint kLanesPerRow = 4;  // when a simdgroup works on scores row by row

// Of a row of the result.
static uint value_matrices() {
    return (fc_v_head_dim + 7) / 8;
}

// Up to 8 rows of one sequence.
struct Tile {
    uint row;       // the first, in the batch
    uint n_rows;    // 0: there is no such tile
    uint position;  // of the first row
    uint block_table_begin;
};

// Tiles are counted through all sequences, each of which may end in a partial one.
static Tile find_tile(device const Span* spans, uint n_spans, uint index) {
    for (uint i = 0; i < n_spans; ++i) {
        const uint n_tiles = (spans[i].n_rows + attention::kTileRows - 1) / attention::kTileRows;
        if (index < n_tiles) {
            const uint begin = index * attention::kTileRows;
            return Tile{spans[i].row_begin + begin, min(attention::kTileRows, spans[i].n_rows - begin),
                        spans[i].position_begin + begin, spans[i].block_table_begin};
        }
        index -= n_tiles;
    }
    return Tile{0, 0, 0, 0};
}

// The chunks of a block that hold positions between the first and the last that the tile sees.
struct Chunks {
    uint begin, end;            // of chunks
    uint first, last_plus_one;  // positions, counted from the block's beginning
};

static Chunks visible_chunks(uint block_begin, uint first, uint last) {
    const uint visible_begin = max(first, block_begin) - block_begin;
    const uint visible_end = min(last + 1 - block_begin, kCacheBlock);
    return Chunks{visible_begin / kChunk, (visible_end + kChunk - 1) / kChunk, visible_begin, visible_end};
}

// The part of an 8 x 8 matrix in memory that a product may use: rows [begin, end), columns [0, width). Elsewhere may be
// anything, even NaN, which a factor of 0 does not cancel.
struct Part {
    uint begin, end, width;
};

// The part, and zeros around it; `matrix` [8, 8] is memory for it.
template <class T>
static simdgroup_float8x8 load_part(device const T* from,
                                    uint stride,
                                    Part part,
                                    uint lane,
                                    threadgroup float* matrix) {
    for (uint e = lane; e < 64; e += kSimdWidth) {
        const uint r = e / 8, c = e % 8;
        const bool exists = r >= part.begin && r < part.end && c < part.width;
        matrix[e] = exists ? float(from[r * stride + c]) : 0.0f;
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);
    simdgroup_float8x8 result;
    simdgroup_load(result, matrix, 8);
    simdgroup_barrier(mem_flags::mem_threadgroup);
    return result;
}

// Where matrices cannot be read as they lie, 8 rows of a block's 64 columns at a time are made f32 in the memory of
// scores.
constant constexpr uint kStagedValues = 8 * kCacheBlock;

// Scores of the tile's queries [8, key_columns(head_dim)] and a block's keys, into scores [8, kCacheBlock].
template <class T>
static void multiply_keys(threadgroup const float* queries,
                          device const T* keys,
                          thread const Chunks& chunks,
                          uint lane,
                          threadgroup float* scores) {
    simdgroup_float8x8 sums[kCacheBlock / kChunk];
    for (uint c = 0; c < kCacheBlock / kChunk; ++c) sums[c] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    for (uint i = 0; i < fc_head_dim; i += 8) {
        const bool staged = is_coded<T>() || (fc_head_dim % 8 != 0 && i + 8 > fc_head_dim);
        if (staged) {
            for (uint e = lane; e < kStagedValues; e += kSimdWidth) {
                const uint r = i + e / kCacheBlock;
                scores[e] = r < fc_head_dim ? key_at(keys, e % kCacheBlock, r, fc_head_dim) : 0.0f;
            }
            simdgroup_barrier(mem_flags::mem_threadgroup);
        }
        simdgroup_float8x8 query;
        simdgroup_load(query, queries + i, attention::key_columns(fc_head_dim));
#pragma unroll
        for (uint c = 0; c < kCacheBlock / kChunk; ++c) {
            if (c < chunks.begin || c >= chunks.end) continue;
            if (!staged) {
                multiply_stored(sums[c], query, keys + i * kCacheBlock + c * kChunk, kCacheBlock, false);
                continue;
            }
            simdgroup_float8x8 key;
            simdgroup_load(key, scores + c * kChunk, kCacheBlock);
            simdgroup_multiply_accumulate(sums[c], query, key, sums[c]);
        }
        if (staged) {
            simdgroup_barrier(mem_flags::mem_threadgroup);
        }
    }
#pragma unroll
    for (uint c = 0; c < kCacheBlock / kChunk; ++c) {
        if (c >= chunks.begin && c < chunks.end) simdgroup_store(sums[c], scores + c * kChunk, kCacheBlock);
    }
}

// The online softmax of the row that a lane works on.
struct Softmax {
    float maximum, sum;
};

// Turns the row's scores into weights; returns the factor for what was summed before. `row_position` sees positions
// from `first`; the lane has every kLanesPerRow-th column from `column`.
static float update_softmax(thread Softmax& softmax,
                            threadgroup float* scores,
                            thread const Chunks& chunks,
                            uint block_begin,
                            uint first,
                            uint row_position,
                            uint column,
                            float slope) {
    float maximum = softmax.maximum;
    for (uint j = chunks.begin * kChunk + column; j < chunks.end * kChunk; j += kLanesPerRow) {
        const uint position = block_begin + j;
        const float score = capped(scores[j], fc_softcap) + slope * (float(position) - float(row_position));
        scores[j] = position >= first && position <= row_position ? score : -INFINITY;
        maximum = max(maximum, scores[j]);
    }
    maximum = max(maximum, simd_shuffle_xor(maximum, 1));
    maximum = max(maximum, simd_shuffle_xor(maximum, 2));
    float sum = 0;
    for (uint j = chunks.begin * kChunk + column; j < chunks.end * kChunk; j += kLanesPerRow) {
        scores[j] = rescaling(scores[j], maximum);
        sum += scores[j];
    }
    sum += simd_shuffle_xor(sum, 1);
    sum += simd_shuffle_xor(sum, 2);
    const float factor = rescaling(softmax.maximum, maximum);
    softmax.maximum = maximum;
    softmax.sum = softmax.sum * factor + sum;
    return factor;
}

// The diagonal matrix of the rows' factors: each lane writes its row's entries of two columns.
static simdgroup_float8x8 diagonal(float factor, uint r, uint column, threadgroup float* matrix) {
    for (uint c = column; c < 8; c += kLanesPerRow) matrix[r * 8 + c] = r == c ? factor : 0.0f;
    simdgroup_barrier(mem_flags::mem_threadgroup);
    simdgroup_float8x8 result;
    simdgroup_load(result, matrix, 8);
    simdgroup_barrier(mem_flags::mem_threadgroup);
    return result;
}

// sums += weights [8, kCacheBlock] times the block's values.
template <class T>
static void add_values(threadgroup float* weights,
                       device const T* values,
                       thread const Chunks& chunks,
                       uint lane,
                       threadgroup float* matrix,
                       thread simdgroup_float8x8* sums) {
    for (uint c = chunks.begin; c < chunks.end; ++c) {
        simdgroup_float8x8 weight;
        simdgroup_load(weight, weights + c * kChunk, kCacheBlock);
        device const T* chunk = values + c * kChunk * fc_v_head_dim;
        const uint begin = max(c * kChunk, chunks.first) - c * kChunk;
        const uint end = min((c + 1) * kChunk, chunks.last_plus_one) - c * kChunk;
#pragma unroll
        for (uint i = 0; i < value_matrices(); ++i) {
            const uint width = min(8u, fc_v_head_dim - i * 8);
            if (begin == 0 && end == kChunk && width == 8) {
                multiply_stored(sums[i], weight, chunk + i * 8, fc_v_head_dim, false);
            } else {
                const simdgroup_float8x8 value =
                    load_part(chunk + i * 8, fc_v_head_dim, Part{begin, end, width}, lane, matrix);
                simdgroup_multiply_accumulate(sums[i], weight, value, sums[i]);
            }
        }
    }
}

static void add_values(threadgroup float* weights,
                       device const int8_t* values,
                       thread const Chunks& chunks,
                       uint lane,
                       threadgroup float*,
                       thread simdgroup_float8x8* sums) {
    simdgroup_float8x8 weight[kCacheBlock / kChunk];
#pragma unroll
    for (uint c = 0; c < kCacheBlock / kChunk; ++c) {
        if (c >= chunks.begin && c < chunks.end) simdgroup_load(weight[c], weights + c * kChunk, kCacheBlock);
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);
    threadgroup float* staged = weights;
#pragma unroll
    for (uint c = 0; c < kCacheBlock / kChunk; ++c) {
        if (c < chunks.begin || c >= chunks.end) continue;
#pragma unroll
        for (uint first = 0; first < fc_v_head_dim; first += kCacheBlock) {
            for (uint e = lane; e < kStagedValues; e += kSimdWidth) {
                const uint position = c * kChunk + e / kCacheBlock, i = first + e % kCacheBlock;
                const bool exists = position >= chunks.first && position < chunks.last_plus_one && i < fc_v_head_dim;
                staged[e] = exists ? value_at(values, position, i, fc_v_head_dim) : 0.0f;
            }
            simdgroup_barrier(mem_flags::mem_threadgroup);
#pragma unroll
            for (uint i = first / 8; i < min(value_matrices(), (first + kCacheBlock) / 8); ++i) {
                simdgroup_float8x8 value;
                simdgroup_load(value, staged + i * 8 - first, kCacheBlock);
                simdgroup_multiply_accumulate(sums[i], weight[c], value, sums[i]);
            }
            simdgroup_barrier(mem_flags::mem_threadgroup);
        }
    }
}

template <class T>
kernel void attend(device const float* q [[buffer(attention::q)]],
                   device const T* cache [[buffer(attention::cache)]],
                   device const Span* spans [[buffer(attention::spans)]],
                   device const int* block_table [[buffer(attention::block_table)]],
                   device const float* sinks [[buffer(attention::sinks), function_constant(has_sinks)]],
                   device const float* slopes [[buffer(attention::slopes), function_constant(has_slopes)]],
                   device float* out [[buffer(attention::out)]],
                   constant Attention& params [[buffer(params_buffer)]],
                   constant LaunchSizes& sizes [[buffer(sizes_buffer)]],
                   threadgroup float* memory [[threadgroup(0)]],
                   uint2 group [[threadgroup_position_in_grid]],
                   uint simdgroup [[simdgroup_index_in_threadgroup]],
                   uint simdgroups [[simdgroups_per_threadgroup]],
                   uint lane [[thread_index_in_simdgroup]]) {
    const uint head = group.y, kv_head = head / (params.heads / params.kv_heads);
    const Tile tile = find_tile(spans, sizes.sequences, group.x * simdgroups + simdgroup);
    if (tile.n_rows == 0) return;
    threadgroup float* queries = memory + simdgroup * attention::tile_floats(fc_head_dim);
    const uint columns = attention::key_columns(fc_head_dim);
    threadgroup float* scores = queries + attention::kTileRows * columns;
    threadgroup float* matrix = scores + attention::kTileRows * kCacheBlock;

    for (uint i = lane; i < attention::kTileRows * columns; i += kSimdWidth) {
        const uint r = i / columns, c = i % columns;
        const ulong index = (ulong(tile.row + r) * params.heads + head) * fc_head_dim + c;
        queries[i] = r < tile.n_rows && c < fc_head_dim ? params.scale * q[index] : 0.0f;
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);

    const uint r = lane / kLanesPerRow, column = lane % kLanesPerRow;  // of the scores, for this lane
    const uint last = tile.position + tile.n_rows - 1;
    // Rows past the last are like it, but for their queries: what they hold must be finite, for they meet in matrices.
    const uint row_position = min(tile.position + r, last);
    const uint first = first_visible(tile.position, fc_window, fc_chunk);
    const float slope = has_slopes ? slopes[head] : 0.0f;
    Softmax softmax = {-INFINITY, 0.0f};
    simdgroup_float8x8 sums[kMaxValueMatrices];
#pragma unroll
    for (uint i = 0; i < value_matrices(); ++i) sums[i] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    for (uint b = first / kCacheBlock; b <= last / kCacheBlock; ++b) {
        const uint block = block_table[tile.block_table_begin + b], block_begin = b * kCacheBlock;
        device const T* keys = cache + cache_keys<T>(block, kv_head, params.kv_heads, fc_head_dim, fc_v_head_dim);
        const Chunks chunks = visible_chunks(block_begin, first, last);
        multiply_keys(queries, keys, chunks, lane, scores);
        simdgroup_barrier(mem_flags::mem_threadgroup);
        const float factor =
            update_softmax(softmax, scores + r * kCacheBlock, chunks, block_begin,
                           first_visible(row_position, fc_window, fc_chunk), row_position, column, slope);
        const simdgroup_float8x8 factors = diagonal(factor, r, column, matrix);  // and the weights are visible to all
#pragma unroll
        for (uint i = 0; i < value_matrices(); ++i) simdgroup_multiply(sums[i], factors, sums[i]);
        add_values(scores, keys + cache_elements<T>(fc_head_dim), chunks, lane, matrix, sums);
        // The next block's scores need no barrier: each lane reads and writes the same elements of a matrix. Staged
        // keys need one.
        if (!is_coded<T>() && fc_head_dim % 8 != 0) {
            simdgroup_barrier(mem_flags::mem_threadgroup);
        }
    }

    const float maximum = has_sinks ? max(softmax.maximum, sinks[head]) : softmax.maximum;
    const float kept = rescaling(softmax.maximum, maximum);
    const float sum = softmax.sum * kept + (has_sinks ? precise::exp(sinks[head] - maximum) : 0.0f);
    const simdgroup_float8x8 factors = diagonal(kept / sum, r, column, matrix);
#pragma unroll
    for (uint i = 0; i < value_matrices(); ++i) {
        simdgroup_multiply(sums[i], factors, sums[i]);
        simdgroup_store(sums[i], matrix, 8);
        simdgroup_barrier(mem_flags::mem_threadgroup);
        for (uint e = lane; e < tile.n_rows * 8; e += kSimdWidth) {
            if (i * 8 + e % 8 >= fc_v_head_dim) continue;
            out[(ulong(tile.row + e / 8) * params.heads + head) * fc_v_head_dim + i * 8 + e % 8] = matrix[e];
        }
        simdgroup_barrier(mem_flags::mem_threadgroup);
    }
}

template [[host_name("attention_f16")]] kernel decltype(attend<half>) attend<half>;
template [[host_name("attention_f32")]] kernel decltype(attend<float>) attend<float>;
template [[host_name("attention_q8_0")]] kernel decltype(attend<int8_t>) attend<int8_t>;
