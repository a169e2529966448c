// attention_split, see csrc/params/attention_split.h: a simdgroup is one part of the positions, for a few heads that
// share keys and values. Scores: lanes are positions, two each, so that keys are read as they lie and no sums go across
// lanes. Values: lanes are pairs of a head's values.
#include <metal_stdlib>

#include "../csrc/params/attention_split.h"
#include "attention_scores.h"
#include "kv_cache.h"

using namespace metal;
using namespace ferrule;

constant bool has_slopes [[function_constant(attention_split::has_slopes)]];
constant uint fc_head_dim [[function_constant(attention_split::fc_head_dim)]];
constant uint fc_v_head_dim [[function_constant(attention_split::fc_v_head_dim)]];
constant uint fc_window [[function_constant(attention_split::fc_window)]];
constant float fc_softcap [[function_constant(attention_split::fc_softcap)]];

// The online softmax of a few heads, and the lane's share of the weighted values.
struct Part {
    float maxima[attention_split::kMaxHeads];
    float sums[attention_split::kMaxHeads];
    float2 values[attention_split::kPairsPerLane];  // [heads][pairs of a head]
};

// Products of a query with the keys of the lane's two positions of a block.
template <class T2>
static float2 scores(device const T2* keys, threadgroup const float* query) {
    float2 sum = float2(0.0f);
    for (uint i = 0; i < fc_head_dim; ++i) sum += query[i] * float2(keys[i * (kCacheBlock / 2)]);
    return sum;
}

static float masked(float score, uint position, uint row_position, uint first, float slope) {
    const float biased = capped(score, fc_softcap) + slope * (float(position) - float(row_position));
    return position >= first && position <= row_position ? biased : -INFINITY;
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
    const uint head_group = params.heads / params.kv_heads;
    const uint together = attention_split::heads_together(params.heads, params.kv_heads, fc_v_head_dim);
    const uint tiles = (head_group + together - 1) / together;
    const uint kv_head = group.x / tiles, head_in_group = group.x % tiles * together;
    const uint n_heads = min(together, head_group - head_in_group), head = kv_head * head_group + head_in_group;

    threadgroup float* queries = memory;  // [n_heads, head_dim]
    const ulong query_begin = (ulong(row) * params.heads + head) * fc_head_dim;
    for (uint i = thread_index; i < n_heads * fc_head_dim; i += attention_split::kSimdgroups * kSimdWidth) {
        queries[i] = params.scale * q[query_begin + i];
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (split >= params.splits) return;

    const Span span = find_span(spans, row);
    const uint position = span.position_begin + row - span.row_begin, first = first_visible(position, fc_window);
    const uint first_block = first / kCacheBlock, n_blocks = position / kCacheBlock - first_block + 1;
    const uint blocks_per_split = (n_blocks + params.splits - 1) / params.splits;
    const uint begin = min(split * blocks_per_split, n_blocks), end = min(begin + blocks_per_split, n_blocks);

    // Softmax weights of a block's positions, [n_heads, kCacheBlock].
    threadgroup float* weights = memory + together * (fc_head_dim + simdgroup * kCacheBlock);
    const uint pairs = attention_split::head_pairs(fc_v_head_dim);
    Part part;
    for (uint h = 0; h < n_heads; ++h) {
        part.maxima[h] = -INFINITY;
        part.sums[h] = 0;
        for (uint i = 0; i < pairs; ++i) part.values[h * pairs + i] = float2(0.0f);
    }
    for (uint b = first_block + begin; b < first_block + end; ++b) {
        const uint block = block_table[span.block_table_begin + b];
        device const T* keys = cache + cache_keys(block, kv_head, params.kv_heads, fc_head_dim, fc_v_head_dim);
        device const T2* values = (device const T2*)(keys + fc_head_dim * kCacheBlock);
        const uint mine = b * kCacheBlock + 2 * lane;
        for (uint h = 0; h < n_heads; ++h) {
            const float2 raw = scores((device const T2*)keys + lane, queries + h * fc_head_dim);
            const float slope = has_slopes ? slopes[head + h] : 0.0f;
            const float score0 = masked(raw.x, mine, position, first, slope);
            const float score1 = masked(raw.y, mine + 1, position, first, slope);
            const float maximum = max(part.maxima[h], simd_max(max(score0, score1)));
            const float weight0 = precise::exp(score0 - maximum), weight1 = precise::exp(score1 - maximum);
            const float factor = rescaling(part.maxima[h], maximum);
            part.maxima[h] = maximum;
            part.sums[h] = part.sums[h] * factor + simd_sum(weight0 + weight1);
            for (uint i = 0; i < pairs; ++i) part.values[h * pairs + i] *= factor;
            weights[h * kCacheBlock + 2 * lane] = weight0;
            weights[h * kCacheBlock + 2 * lane + 1] = weight1;
        }
        simdgroup_barrier(mem_flags::mem_threadgroup);

        // Positions that the row does not see may hold anything, even NaN.
        const uint j_begin = max(first, b * kCacheBlock) - b * kCacheBlock;
        const uint j_end = min(position + 1 - b * kCacheBlock, kCacheBlock);
        for (uint j = j_begin; j < j_end; ++j) {
            for (uint i = 0; i < pairs; ++i) {
                const uint pair = lane + i * kSimdWidth;
                if (pair >= fc_v_head_dim / 2) break;
                const float2 value = float2(values[j * (fc_v_head_dim / 2) + pair]);
                for (uint h = 0; h < n_heads; ++h) part.values[h * pairs + i] += weights[h * kCacheBlock + j] * value;
            }
        }
        simdgroup_barrier(mem_flags::mem_threadgroup);
    }

    for (uint h = 0; h < n_heads; ++h) {
        const ulong index = (ulong(row) * params.heads + head + h) * params.splits + split;
        device float* result = partials + index * (fc_v_head_dim + 2);
        for (uint pair = lane, i = 0; begin < end && pair < fc_v_head_dim / 2; pair += kSimdWidth, ++i) {
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
