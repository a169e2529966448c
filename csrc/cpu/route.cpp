// route: chooses k experts for each row of logits. One work item per row.
#include "../params/route.h"

#include "kernel.h"
#include "simd/math.h"

namespace ferrule::cpu::FERRULE_ISA {

namespace {

constexpr float kInfinity = __builtin_inff();

uint32_t items(const KernelArgs& args) {
    return args.rows;
}

size_t scratch_bytes(const KernelArgs& args) {
    const Route& params = args.as<Route>();
    return (2 * size_t{params.experts} + params.groups) * sizeof(float);
}

// The first of the greatest values that are not NaN; 0 where all are or n is 0.
uint32_t greatest(const float* x, uint32_t n) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; ++i)
        if (x[i] > x[best] || (x[best] != x[best] && x[i] == x[i])) best = i;
    return best;
}

float sum(const float* x, uint32_t n) {
    float total = 0;
    for (uint32_t i = 0; i < n; ++i) total += x[i];
    return total;
}

// scores[i] = f(logits[i]), 16 at a time.
template <class F>
void map(const float* logits, uint32_t n, float* scores, F f) {
    for (uint32_t i = 0; i < n; i += 16) {
        const uint32_t left = n - i < 16 ? n - i : 16;
        simd::store_partial(scores + i, f(simd::load_partial(logits + i, left)), left);
    }
}

void score(const Route& params, const float* logits, float* scores) {
    const uint32_t n = params.experts;
    if (static_cast<Scoring>(params.scoring) == Scoring::sigmoid) {
        map(logits, n, scores, [](simd::f32x16 x) { return simd::sigmoid(x); });
        return;
    }
    const simd::f32x16 maximum = simd::set1(logits[greatest(logits, n)]);
    map(logits, n, scores, [&](simd::f32x16 x) { return exp(x - maximum); });
    const float total = sum(scores, n);
    for (uint32_t i = 0; i < n; ++i) scores[i] /= total;
}

float group_score(const Route& params, const float* choice, uint32_t width) {
    const uint32_t first = greatest(choice, width);
    if (static_cast<GroupScore>(params.group_score) == GroupScore::max || width == 1) return choice[first];
    uint32_t second = first == 0 ? 1 : 0;
    for (uint32_t i = second + 1; i < width; ++i)
        if (i != first && choice[i] > choice[second]) second = i;
    return choice[first] + choice[second];
}

// Takes all groups but the best out of the choice. scores: [groups], may be any memory.
void limit_groups(const Route& params, float* choice, float* scores) {
    const uint32_t width = params.experts / params.groups;
    for (uint32_t g = 0; g < params.groups; ++g) scores[g] = group_score(params, choice + g * width, width);
    for (uint32_t left = params.groups; left > params.top_groups; --left) {
        uint32_t worst = 0;  // the last of the least
        for (uint32_t g = 1; g < params.groups; ++g)
            if (!(scores[g] > scores[worst])) worst = g;
        scores[worst] = kInfinity;
        for (uint32_t i = 0; i < width; ++i) choice[worst * width + i] = -kInfinity;
    }
}

// The weight of left[best] in a softmax over those near it; chosen logits are -infinity. `near` may be any memory.
float sparsemixer_weight(const Route& params, const float* left, uint32_t best, float* near) {
    const simd::f32x16 maximum = simd::set1(left[best]), tolerance = simd::set1(2 * params.jitter);
    map(left, params.experts, near, [&](simd::f32x16 x) {
        return select(less_equal(maximum - x, tolerance * max(abs(x), maximum)), exp(x - maximum), simd::zero_f32());
    });
    return 1 / sum(near, params.experts);
}

// Writes the ids of the k greatest of `choice`, which is spent, and weight(id) of each.
template <class Weight>
void choose(const Route& params, float* choice, float* ids, float* weights, Weight weight) {
    for (uint32_t slot = 0; slot < params.k; ++slot) {
        const uint32_t best = greatest(choice, params.experts);
        ids[slot] = static_cast<float>(best);
        weights[slot] = weight(best);
        choice[best] = __builtin_nanf("");  // never again, not even where the others are -infinity
    }
}

void run(const KernelArgs& args, uint32_t begin, uint32_t end, std::byte* scratch) {
    const Route& params = args.as<Route>();
    const float* bias = args.operand<const float>(route::choice_bias);
    const float* expert_scale = args.operand<const float>(route::expert_scale);
    float* scores = reinterpret_cast<float*>(scratch);
    float* choice = scores + params.experts;
    float* group_scores = choice + params.experts;
    for (uint32_t row = begin; row < end; ++row) {
        const float* logits = args.operand<const float>(route::logits) + size_t{row} * params.experts;
        float* ids = args.operand<float>(route::out) + size_t{row} * 2 * params.k;
        float* weights = ids + params.k;
        if (static_cast<Scoring>(params.scoring) == Scoring::sparsemixer) {
            for (uint32_t i = 0; i < params.experts; ++i) choice[i] = logits[i];
            choose(params, choice, ids, weights,
                   [&](uint32_t best) { return sparsemixer_weight(params, choice, best, scores); });
        } else {
            score(params, logits, scores);
            for (uint32_t i = 0; i < params.experts; ++i) choice[i] = bias != nullptr ? scores[i] + bias[i] : scores[i];
            if (params.top_groups < params.groups) limit_groups(params, choice, group_scores);
            choose(params, choice, ids, weights, [&](uint32_t best) { return scores[best]; });
        }
        const float divisor = params.normalize != 0 ? sum(weights, params.k) + params.norm_eps : 1.0f;
        for (uint32_t slot = 0; slot < params.k; ++slot) {
            weights[slot] = weights[slot] / divisor * params.scale;
            if (expert_scale != nullptr) weights[slot] *= expert_scale[static_cast<uint32_t>(ids[slot])];
        }
    }
}

constexpr Kernel kKernels[] = {{"route", &route::signature, items, scratch_bytes, run}};

}  // namespace

std::span<const Kernel> route_kernels() {
    return kKernels;
}

}  // namespace ferrule::cpu::FERRULE_ISA
