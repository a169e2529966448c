// select_positions, see csrc/params/select_positions.h: a threadgroup per row, whose threads take neighbouring
// positions. A position's score and number are one integer, greater for better positions, so that all differ. The best
// are collected in threadgroup memory; when it is full, all but `top` of them are dropped, and positions that are no
// better than these are not collected any more.
#include <metal_stdlib>

#include "../csrc/params/select_positions.h"
#include "kv_cache.h"

using namespace metal;
using namespace ferrule;

constant constexpr uint kThreads = select_positions::kThreads, kSimdgroups = kThreads / kSimdWidth;
constant constexpr uint kHeadsAtOnce = 8;

// Of equal scores the lower position is better.
static ulong make_rank(float score, uint position) {
    const uint bits = as_type<uint>(score + 0.0f);  // no negative zero
    const uint ordered = bits ^ (bits >> 31 != 0 ? 0xFFFFFFFFu : 0x80000000u);
    return ulong(ordered) << 32 | ulong(~position);
}

// The score of a position of a block of keys.
template <class T>
static float score(device const T* keys,
                   uint position,
                   device const float* q,
                   device const float* weights,
                   constant SelectPositions& params) {
    float total = 0;
    for (uint first = 0; first < params.heads; first += kHeadsAtOnce) {
        const uint n_heads = min(kHeadsAtOnce, params.heads - first);
        float sums[kHeadsAtOnce] = {};
        for (uint i = 0; i < params.head_dim; ++i) {
            const float key = key_at(keys, position, i, params.head_dim);
#pragma unroll
            for (uint h = 0; h < kHeadsAtOnce; ++h) {
                if (h < n_heads) sums[h] += q[(first + h) * params.head_dim + i] * key;
            }
        }
#pragma unroll
        for (uint h = 0; h < kHeadsAtOnce; ++h) {
            if (h < n_heads) total += weights[first + h] * max(0.0f, params.scale * sums[h]);
        }
    }
    return total;
}

// What a threadgroup has collected.
struct Collection {
    threadgroup ulong* ranks;
    threadgroup uint* counts;  // of each simdgroup, for sums
    uint n;
};

// The sum over the simdgroups before this one and, in `all`, over all of them.
static uint sum_before(uint value, uint simdgroup, uint lane, thread Collection& collection, thread uint& all) {
    const uint sum = simd_sum(value);
    if (lane == 0) collection.counts[simdgroup] = sum;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    uint before = 0;
    all = 0;
    for (uint i = 0; i < kSimdgroups; ++i) {
        before += i < simdgroup ? collection.counts[i] : 0;
        all += collection.counts[i];
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    return before;
}

// Adds the ranks of those threads that have one to keep.
static void collect(ulong rank, bool keep, uint simdgroup, uint lane, thread Collection& collection) {
    const uint one = keep ? 1 : 0, before = simd_prefix_exclusive_sum(one);
    uint all;
    const uint begin = collection.n + sum_before(one, simdgroup, lane, collection, all);
    if (keep) collection.ranks[begin + before] = rank;
    collection.n += all;
    threadgroup_barrier(mem_flags::mem_threadgroup);
}

// Drops all but the best `top`, of which there are more. Returns the least that is left, found bit by bit.
static ulong drop(uint top, uint thread_index, uint simdgroup, uint lane, thread Collection& collection) {
    ulong least = 0;
    for (uint bit = 64; bit-- > 0;) {
        const ulong candidate = least | 1ul << bit;
        uint n_above = 0, all;
        for (uint i = thread_index; i < collection.n; i += kThreads) {
            n_above += collection.ranks[i] >= candidate ? 1 : 0;
        }
        sum_before(n_above, simdgroup, lane, collection, all);
        if (all >= top) least = candidate;
    }
    const uint n = collection.n;
    collection.n = 0;
    for (uint first = 0; first < n; first += kThreads) {  // what is left moves down, to places that have been read
        const ulong rank = first + thread_index < n ? collection.ranks[first + thread_index] : 0;
        collect(rank, rank >= least, simdgroup, lane, collection);
    }
    return least;
}

template <class T>
kernel void select_best(device const float* q [[buffer(select_positions::q)]],
                        device const float* weights [[buffer(select_positions::weights)]],
                        device const T* cache [[buffer(select_positions::cache)]],
                        device const Span* spans [[buffer(select_positions::spans)]],
                        device const int* block_table [[buffer(select_positions::block_table)]],
                        device float* out [[buffer(select_positions::out)]],
                        constant SelectPositions& params [[buffer(params_buffer)]],
                        threadgroup ulong* memory [[threadgroup(0)]],
                        uint2 group [[threadgroup_position_in_grid]],
                        uint thread_index [[thread_index_in_threadgroup]],
                        uint simdgroup [[simdgroup_index_in_threadgroup]],
                        uint lane [[thread_index_in_simdgroup]]) {
    threadgroup uint counts[kSimdgroups];
    const uint row = group.x, top = params.top;
    const Span span = find_span(spans, row);
    const uint n_positions = span.position_begin + row - span.row_begin + 1;
    q += ulong(row) * params.heads * params.head_dim;
    weights += ulong(row) * params.heads;
    out += ulong(row) * top;

    Collection collection = {memory, counts, 0};
    ulong least = 0;
    for (uint first = 0; first < n_positions; first += kThreads) {
        const uint position = first + thread_index;
        ulong rank = 0;
        if (position < n_positions) {
            const uint block = block_table[span.block_table_begin + position / kCacheBlock];
            device const T* keys = cache + cache_keys<T>(block, 0, 1, params.head_dim, 0);
            rank = make_rank(score(keys, position % kCacheBlock, q, weights, params), position);
        }
        collect(rank, rank > least, simdgroup, lane, collection);
        const bool is_last = first + kThreads >= n_positions;
        const uint most = is_last ? top : top + select_positions::kSpare - kThreads;
        if (collection.n > most) least = drop(top, thread_index, simdgroup, lane, collection);
    }
    for (uint i = thread_index; i < top; i += kThreads) {
        out[i] = i < collection.n ? float(~uint(collection.ranks[i])) : -1.0f;
    }
}

template [[host_name("select_positions_f16")]] kernel decltype(select_best<half>) select_best<half>;
template [[host_name("select_positions_f32")]] kernel decltype(select_best<float>) select_best<float>;
template [[host_name("select_positions_q8_0")]] kernel decltype(select_best<int8_t>) select_best<int8_t>;
