// route, see csrc/params/route.h: a simdgroup per row. Lane l has experts l, l + 32, ...; only limit_groups reads those
// of other lanes.
#include <metal_stdlib>

#include "../csrc/params/route.h"
#include "activations.h"

using namespace metal;
using namespace ferrule;

constant bool has_choice_bias [[function_constant(route::has_choice_bias)]];
constant bool has_expert_scale [[function_constant(route::has_expert_scale)]];
constant uint fc_scoring [[function_constant(route::fc_scoring)]];

// The greatest of `choice` that is no NaN, of equals the lowest; 0 where there is none.
static uint greatest(threadgroup const float* choice, uint experts, uint lane) {
    uint best = experts;
    for (uint i = lane; i < experts; i += kSimdWidth) {
        if (!isnan(choice[i]) && (best == experts || choice[i] > choice[best])) best = i;
    }
    const float maximum = simd_max(best < experts ? choice[best] : -INFINITY);
    const uint id = simd_min(best < experts && choice[best] == maximum ? best : experts);
    return id < experts ? id : 0;
}

static float group_score(constant Route& params, threadgroup const float* choice, uint width) {
    float first = -INFINITY, second = -INFINITY;
    for (uint i = 0; i < width; ++i) {
        second = max(second, min(choice[i], first));
        first = max(first, choice[i]);
    }
    return GroupScore(params.group_score) == GroupScore::max || width == 1 ? first : first + second;
}

// Takes all groups but the best out of the choice. scores: [groups].
static void limit_groups(constant Route& params, threadgroup float* choice, threadgroup float* scores, uint lane) {
    const uint groups = params.groups, width = params.experts / groups;
    simdgroup_barrier(mem_flags::mem_threadgroup);
    for (uint g = lane; g < groups; g += kSimdWidth) scores[g] = group_score(params, choice + g * width, width);
    simdgroup_barrier(mem_flags::mem_threadgroup);
    for (uint i = lane; i < params.experts; i += kSimdWidth) {
        const uint group = i / width;
        uint better = 0;
        for (uint g = 0; g < groups; ++g) {
            const bool is_earlier = g < group && scores[g] == scores[group];
            better += scores[g] > scores[group] || is_earlier ? 1 : 0;
        }
        if (better >= params.top_groups) choice[i] = -INFINITY;
    }
}

// Of the experts in `choice` near the greatest, `maximum`: the sum of their exponentials.
static float sum_of_near(constant Route& params, threadgroup const float* choice, float maximum, uint lane) {
    float sum = 0;
    for (uint i = lane; i < params.experts; i += kSimdWidth) {
        const bool is_near = maximum - choice[i] <= 2.0f * params.jitter * max(fabs(choice[i]), maximum);
        if (is_near) sum += precise::exp(choice[i] - maximum);
    }
    return simd_sum(sum);
}

// Scores of the lane's experts.
static void score(constant Route& params, device const float* logits, threadgroup float* scores, uint lane) {
    float maximum = -INFINITY;
    for (uint i = lane; i < params.experts; i += kSimdWidth) maximum = max(maximum, logits[i]);
    maximum = simd_max(maximum);
    float sum = 0;
    for (uint i = lane; i < params.experts; i += kSimdWidth) {
        const bool is_sigmoid = Scoring(fc_scoring) == Scoring::sigmoid;
        scores[i] = is_sigmoid ? activate(Activation::sigmoid, logits[i]) : precise::exp(logits[i] - maximum);
        sum += scores[i];
    }
    sum = simd_sum(sum);
    if (Scoring(fc_scoring) == Scoring::sigmoid) return;
    for (uint i = lane; i < params.experts; i += kSimdWidth) scores[i] /= sum;
}

kernel void route(device const float* logits [[buffer(route::logits)]],
                  device const float* choice_bias [[buffer(route::choice_bias), function_constant(has_choice_bias)]],
                  device const float* expert_scale [[buffer(route::expert_scale), function_constant(has_expert_scale)]],
                  device float* out [[buffer(route::out)]],
                  constant Route& params [[buffer(params_buffer)]],
                  threadgroup float* memory [[threadgroup(0)]],
                  uint2 group [[threadgroup_position_in_grid]],
                  uint lane [[thread_index_in_simdgroup]]) {
    const uint experts = params.experts, k = params.k, row = group.x;
    const bool is_sparsemixer = Scoring(fc_scoring) == Scoring::sparsemixer;
    threadgroup float* scores = memory;
    threadgroup float* choice = scores + experts;
    logits += ulong(row) * experts;
    device float* ids = out + ulong(row) * 2 * k;
    device float* weights = ids + k;

    if (!is_sparsemixer) score(params, logits, scores, lane);
    for (uint i = lane; i < experts; i += kSimdWidth) {
        choice[i] = is_sparsemixer ? logits[i] : scores[i];
        if (has_choice_bias) choice[i] += choice_bias[i];
    }
    if (params.top_groups < params.groups) limit_groups(params, choice, choice + experts, lane);

    // Slot s belongs to lane s % 32.
    float total = 0;
    for (uint slot = 0; slot < k; ++slot) {
        const uint best = greatest(choice, experts, lane), owner = best % kSimdWidth;
        const float mine = owner == lane ? (is_sparsemixer ? choice[best] : scores[best]) : 0.0f;
        const float best_score = simd_shuffle(mine, ushort(owner));
        const float weight = is_sparsemixer ? 1.0f / sum_of_near(params, choice, best_score, lane) : best_score;
        if (owner == lane) choice[best] = NAN;  // never again, not even where the others are -infinity
        if (slot % kSimdWidth == lane) {
            ids[slot] = float(best);
            weights[slot] = weight;
        }
        total += weight;
    }
    const float divisor = params.normalize != 0 ? total + params.norm_eps : 1.0f;
    for (uint slot = lane; slot < k; slot += kSimdWidth) {
        float weight = weights[slot] / divisor * params.scale;
        if (has_expert_scale) weight *= expert_scale[uint(ids[slot])];
        weights[slot] = weight;
    }
}
