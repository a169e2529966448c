// sample, see csrc/params/sample.h: a threadgroup per row. The smallest logit that counts is found digit by digit of
// numbers that are ordered as the logits are. Weights are summed over runs of tokens, one for each simdgroup; that
// whose run the draw falls into goes over it once more.
#include <metal_stdlib>

#include "../csrc/params/sample.h"

using namespace metal;
using namespace ferrule;

constant constexpr uint kThreads = sample::kSimdgroups * kSimdWidth;

// Unsigned numbers in the order of floats; both zeros are one.
static uint ordered(float value) {
    const uint bits = as_type<uint>(value + 0.0f);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

static float weight_of(float logit, float largest, uint least, Draw draw) {
    if (ordered(logit) < least) return 0.0f;
    const float weight = precise::exp((logit - largest) * draw.scale);
    return weight < draw.min_p ? 0.0f : weight;
}

kernel void sample(device const float* logits [[buffer(sample::logits)]],
                   device const Draw* draws [[buffer(sample::draws)]],
                   device int* out [[buffer(sample::out)]],
                   constant Sample& params [[buffer(params_buffer)]],
                   uint2 group [[threadgroup_position_in_grid]],
                   uint thread_index [[thread_index_in_threadgroup]],
                   uint simdgroup [[simdgroup_index_in_threadgroup]],
                   uint lane [[thread_index_in_simdgroup]]) {
    threadgroup float maxima[sample::kSimdgroups], totals[sample::kSimdgroups];
    threadgroup atomic_uint counts[sample::kDigits];
    threadgroup uint found[2];  // the digits so far, and how many of the largest are still sought among their like
    const uint width = params.width;
    const Draw draw = draws[group.y];
    logits += ulong(group.y) * width;

    float largest = -INFINITY;
    for (uint i = thread_index; i < width; i += kThreads) {
        largest = isnan(logits[i]) || largest == INFINITY ? INFINITY : max(largest, logits[i]);
    }
    largest = simd_max(largest);
    if (lane == 0) maxima[simdgroup] = largest;
    if (thread_index == 0) {
        found[0] = 0;
        found[1] = draw.top_k;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    largest = simd_max(maxima[lane % sample::kSimdgroups]);
    if (isinf(largest)) {
        if (thread_index == 0) out[group.y] = -1;
        return;
    }

    uint least = draw.top_k == 1 ? ordered(largest) : 0;
    if (draw.top_k > 1 && draw.top_k < width) {
        for (uint shift = 24;; shift -= 8) {
            if (thread_index < sample::kDigits) atomic_store_explicit(&counts[thread_index], 0u, memory_order_relaxed);
            threadgroup_barrier(mem_flags::mem_threadgroup);
            const uint digits = found[0];
            for (uint i = thread_index; i < width; i += kThreads) {
                const uint number = ordered(logits[i]);
                const bool is_like = shift == 24 || number >> (shift + 8) == digits;
                if (is_like) {
                    atomic_fetch_add_explicit(&counts[number >> shift & 255u], 1u, memory_order_relaxed);
                }
            }
            threadgroup_barrier(mem_flags::mem_threadgroup);
            if (thread_index == 0) {
                uint sought = found[1], digit = sample::kDigits - 1;
                for (;; --digit) {
                    const uint count = atomic_load_explicit(&counts[digit], memory_order_relaxed);
                    if (count >= sought) break;
                    sought -= count;
                }
                found[0] = digits << 8 | digit;
                found[1] = sought;
            }
            threadgroup_barrier(mem_flags::mem_threadgroup);
            if (shift == 0) break;
        }
        least = found[0];
    }

    const uint run = (width + kThreads - 1) / kThreads * kSimdWidth, begin = simdgroup * run;
    const uint end = min(begin + run, width);
    float sum = 0;
    for (uint i = begin + lane; i < end; i += kSimdWidth) sum += weight_of(logits[i], largest, least, draw);
    sum = simd_sum(sum);
    if (lane == 0) totals[simdgroup] = sum;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (simdgroup != 0) return;

    float total = 0;
    for (uint s = 0; s < sample::kSimdgroups; ++s) total += totals[s];
    const float goal = draw.uniform * total;
    // Where sums round so that none exceeds the goal, the last token that has a weight is drawn.
    uint drawn_run = 0;
    float before = 0, sum_before = 0;
    for (uint s = 0; s < sample::kSimdgroups; ++s) {
        if (totals[s] > 0.0f) {
            drawn_run = s;
            before = sum_before;
            if (sum_before + totals[s] > goal) break;
        }
        sum_before += totals[s];
    }
    uint token = 0;
    const uint drawn_end = min((drawn_run + 1) * run, width);
    for (uint first = drawn_run * run; first < drawn_end; first += kSimdWidth) {
        const uint i = first + lane;
        const float weight = i < drawn_end ? weight_of(logits[i], largest, least, draw) : 0.0f;
        const float so_far = before + simd_prefix_inclusive_sum(weight);
        const bool exceeds = weight > 0.0f && so_far > goal;
        const uint earliest = simd_min(exceeds ? i : width);
        const uint latest = simd_max(weight > 0.0f ? i : 0);
        token = earliest < width ? earliest : max(token, latest);
        if (earliest < width) break;
        before = simd_max(so_far);
    }
    if (lane == 0) out[group.y] = int(token);
}
