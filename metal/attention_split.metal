// attention_split, see csrc/params/attention_split.h: a simdgroup is one part of the positions, for a few heads that
// share keys and values. Scores: lanes are positions, two each, so that keys are read as they lie and no sums go across
// lanes. Values: lanes are pairs of a head's values. Loops over memory are unrolled in part, so that loads go ahead.
#include <metal_stdlib>

#include "../csrc/params/attention_split.h"
#include "attention_scores.h"
#include "kv_cache.h"

using namespace metal;
using namespace ferrule;

constant bool has_slopes [[function_constant(attention_split::has_slopes)]];
constant uint fc_heads [[function_constant(attention_split::fc_heads)]];
constant uint fc_kv_heads [[function_constant(attention_split::fc_kv_heads)]];
constant uint fc_head_dim [[function_constant(attention_split::fc_head_dim)]];
constant uint fc_v_head_dim [[function_constant(attention_split::fc_v_head_dim)]];
constant uint fc_window [[function_constant(attention_split::fc_window)]];
constant uint fc_chunk [[function_constant(attention_split::fc_chunk)]];
constant float fc_softcap [[function_constant(attention_split::fc_softcap)]];

// The online softmax of a few heads, and the lane's share of the weighted values.
struct Part {
    float maxima[attention_split::kMaxHeads];
    float sums[attention_split::kMaxHeads];
    float2 values[attention_split::kPairsPerLane];  // [heads][pairs of a head]
};

// A row's place among the positions that it sees.
struct Sight {
    uint position, first;
};

static float masked(float score, uint position, thread const Sight& sight, float slope) {
    const float biased = capped(score, fc_softcap) + slope * (float(position) - float(sight.position));
    return position >= sight.first && position <= sight.position ? biased : -INFINITY;
}

// What two neighbouring keys, from value `first` of a group on, or two values of a position are multiplied by.
template <class T2>
static float2 key_scales(device const T2*, uint, uint) {
    return float2(1.0f);
}
static float2 key_scales(device const char2* keys, uint first, uint lane) {
    device const half* scales = cache_scales((device const int8_t*)keys, fc_head_dim);
    return float2(((device const half2*)scales)[first / kCacheGroup * (kCacheBlock / 2) + lane]);
}
template <class T2>
static float value_scale(device const T2*, uint, uint) {
    return 1.0f;
}
static float value_scale(device const char2* values, uint position, uint pair) {
    device const half* scales = cache_scales((device const int8_t*)values, fc_v_head_dim);
    return float(scales[2 * pair / kCacheGroup * kCacheBlock + position]);
}

// Softmax weights of the lane's two positions of a block, from `mine`, for all heads, into weights [heads,
// kCacheBlock]; what was summed before is rescaled. Loops over heads are unrolled, for their sums live in registers.
template <class T2>
static void weigh(device const T2* keys,
                  threadgroup const float* queries,
                  uint together,
                  thread const float* slopes,
                  uint mine,
                  thread const Sight& sight,
                  uint lane,
                  thread Part& part,
                  threadgroup float* weights) {
    float2 scores[attention_split::kMaxHeads] = {};
    for (uint first = 0; first < fc_head_dim; first += kCacheGroup) {
        const float2 scales = key_scales(keys, first, lane);
#pragma unroll(8)
        for (uint i = first; i < min(first + kCacheGroup, fc_head_dim); ++i) {
            const float2 key = scales * float2(keys[i * (kCacheBlock / 2) + lane]);
#pragma unroll
            for (uint h = 0; h < together; ++h) scores[h] += queries[h * fc_head_dim + i] * key;
        }
    }
    const uint pairs = attention_split::head_pairs(fc_v_head_dim);
#pragma unroll
    for (uint h = 0; h < together; ++h) {
        const float score0 = masked(scores[h].x, mine, sight, slopes[h]);
        const float score1 = masked(scores[h].y, mine + 1, sight, slopes[h]);
        const float maximum = max(part.maxima[h], simd_max(max(score0, score1)));
        const float weight0 = precise::exp(score0 - maximum), weight1 = precise::exp(score1 - maximum);
        const float factor = rescaling(part.maxima[h], maximum);
        part.maxima[h] = maximum;
        part.sums[h] = part.sums[h] * factor + simd_sum(weight0 + weight1);
        for (uint i = 0; i < pairs; ++i) part.values[h * pairs + i] *= factor;
        weights[h * kCacheBlock + 2 * lane] = weight0;
        weights[h * kCacheBlock + 2 * lane + 1] = weight1;
    }
}

// Adds the weighted values of a block's positions [begin, end).
template <class T2>
static void add_values(device const T2* values,
                       threadgroup const float* weights,
                       uint together,
                       uint begin,
                       uint end,
                       uint lane,
                       thread Part& part) {
    const uint pairs = attention_split::head_pairs(fc_v_head_dim);
#pragma unroll(8)
    for (uint j = begin; j < end; ++j) {
#pragma unroll
        for (uint i = 0; i < pairs; ++i) {
            const uint pair = lane + i * kSimdWidth;
            if (pair >= fc_v_head_dim / 2) continue;
            const float2 value = value_scale(values, j, pair) * float2(values[j * (fc_v_head_dim / 2) + pair]);
#pragma unroll
            for (uint h = 0; h < together; ++h) part.values[h * pairs + i] += weights[h * kCacheBlock + j] * value;
        }
    }
}

template <class T, class T2>
kernel void attend_part(device const float* q [[buffer(attention_split::q)]],
                        device const T* cache [[buffer(attention_split::cache)]],
                        device const Span* spans [[buffer(attention_split::spans)]],
                        device const int* block_table [[buffer(attention_split::block_table)]],
                        device const float* slopes [[buffer(attention_split::slopes), function_constant(has_slopes)]],
                        device float* partials [[buffer(attention_split::partials)]],
                        constant AttentionSplit& params [[buffer(params_buffer)]],
                        threadgroup float* memory [[threadgroup(0)]],
                        uint3 group [[threadgroup_position_in_grid]],
                        uint thread_index [[thread_index_in_threadgroup]],
                        uint simdgroup [[simdgroup_index_in_threadgroup]],
                        uint lane [[thread_index_in_simdgroup]]) {
    const uint row = group.z, split = group.y * attention_split::kSimdgroups + simdgroup;
    const uint head_group = fc_heads / fc_kv_heads, pairs = attention_split::head_pairs(fc_v_head_dim);
    const uint together = attention_split::heads_together(fc_heads, fc_kv_heads, fc_v_head_dim);
    const uint tiles = (head_group + together - 1) / together;
    const uint kv_head = group.x / tiles, head_in_group = group.x % tiles * together;
    // The last tile of a group may have fewer heads; it goes through all, with queries of 0 for those that are missing.
    const uint n_heads = min(together, head_group - head_in_group), head = kv_head * head_group + head_in_group;

    threadgroup float* queries = memory;  // [together, head_dim]
    const ulong query_begin = (ulong(row) * fc_heads + head) * fc_head_dim;
    for (uint i = thread_index; i < together * fc_head_dim; i += attention_split::kSimdgroups * kSimdWidth) {
        queries[i] = i < n_heads * fc_head_dim ? params.scale * q[query_begin + i] : 0.0f;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (split >= params.splits) return;

    const Span span = find_span(spans, row);
    const uint position = span.position_begin + row - span.row_begin;
    const Sight sight = {position, first_visible(position, fc_window, fc_chunk)};
    const uint first_block = sight.first / kCacheBlock, n_blocks = position / kCacheBlock - first_block + 1;
    const uint blocks_per_split = (n_blocks + params.splits - 1) / params.splits;
    const uint begin = min(split * blocks_per_split, n_blocks), end = min(begin + blocks_per_split, n_blocks);

    threadgroup float* weights = memory + together * (fc_head_dim + simdgroup * kCacheBlock);
    Part part = {};
    float head_slopes[attention_split::kMaxHeads] = {};
#pragma unroll
    for (uint h = 0; h < together; ++h) {
        part.maxima[h] = -INFINITY;
        if (has_slopes) head_slopes[h] = slopes[head + min(h, n_heads - 1)];
    }
    for (uint b = first_block + begin; b < first_block + end; ++b) {
        const uint block = block_table[span.block_table_begin + b], block_begin = b * kCacheBlock;
        device const T* keys = cache + cache_keys<T>(block, kv_head, fc_kv_heads, fc_head_dim, fc_v_head_dim);
        device const T2* values = (device const T2*)(keys + cache_elements<T>(fc_head_dim));
        weigh((device const T2*)keys, queries, together, head_slopes, block_begin + 2 * lane, sight, lane, part,
              weights);
        simdgroup_barrier(mem_flags::mem_threadgroup);
        // Positions that the row does not see may hold anything, even NaN.
        const uint j_begin = max(sight.first, block_begin) - block_begin;
        const uint j_end = min(position + 1 - block_begin, kCacheBlock);
        add_values(values, weights, together, j_begin, j_end, lane, part);
        simdgroup_barrier(mem_flags::mem_threadgroup);
    }

#pragma unroll
    for (uint h = 0; h < together; ++h) {
        if (h >= n_heads) continue;
        const ulong index = (ulong(row) * fc_heads + head + h) * params.splits + split;
        device float* result = partials + index * (fc_v_head_dim + 2);
        for (uint i = 0; i < pairs; ++i) {
            const uint pair = lane + i * kSimdWidth;
            if (begin == end || pair >= fc_v_head_dim / 2) continue;
            result[2 * pair] = part.values[h * pairs + i].x;
            result[2 * pair + 1] = part.values[h * pairs + i].y;
        }
        if (lane == 0) {
            result[fc_v_head_dim] = part.maxima[h];
            result[fc_v_head_dim + 1] = part.sums[h];
        }
    }
}

template [[host_name("attention_split_f16")]] kernel decltype(attend_part<half, half2>) attend_part<half, half2>;
template [[host_name("attention_split_f32")]] kernel decltype(attend_part<float, float2>) attend_part<float, float2>;
template [[host_name("attention_split_q8_0")]] kernel decltype(attend_part<int8_t, char2>) attend_part<int8_t, char2>;
