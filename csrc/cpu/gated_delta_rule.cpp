// gated_delta_rule: see params/gated_delta_rule.h. The columns of a state do not depend on each other: a work item is
// up to 64 columns of one head of one sequence, over all of its tokens, so that its part of the state stays in cache.
// Sums over k_dim are taken in order.
#include "../params/gated_delta_rule.h"

#include "kernel.h"
#include "simd/math.h"

namespace ferrule::cpu::FERRULE_ISA {

namespace {

using simd::f32x16;

constexpr uint32_t kLanes = 16;
constexpr uint32_t kVectors = 4;
constexpr uint32_t kColumns = kVectors * kLanes;

uint32_t column_items(const GatedDeltaRule& params) {
    return (params.v_dim + kColumns - 1) / kColumns;
}

uint32_t items(const KernelArgs& args) {
    const GatedDeltaRule& params = args.as<GatedDeltaRule>();
    return args.dims.sequences * params.heads * column_items(params);
}

size_t scratch_bytes(const KernelArgs& args) {
    return args.as<GatedDeltaRule>().decays * sizeof(float);
}

// decay[i] = exp(a * softplus(dt[i] + bias[i]))
void find_decay(const float* dt, const float* bias, float a, uint32_t n, float* decay) {
    for (uint32_t i = 0; i < n; i += kLanes) {
        const uint32_t left = n - i < kLanes ? n - i : kLanes;
        const f32x16 step = softplus(simd::load_partial(dt + i, left) + simd::load_partial(bias + i, left));
        simd::store_partial(decay + i, exp(simd::set1(a) * step), left);
    }
}

// Columns of a state, as vectors; `width` of them exist.
struct Columns {
    float* state;
    uint32_t stride;
    uint32_t width;

    uint32_t in_vector(uint32_t v) const {
        const uint32_t first = v * kLanes;
        return first >= width ? 0 : width - first < kLanes ? width - first : kLanes;
    }
    f32x16 load(uint32_t row, uint32_t v) const {
        return simd::load_partial(state + size_t{row} * stride + v * kLanes, in_vector(v));
    }
    void store(uint32_t row, uint32_t v, f32x16 x) const {
        simd::store_partial(state + size_t{row} * stride + v * kLanes, x, in_vector(v));
    }
};

// One token; v, out: the item's columns.
void step(const GatedDeltaRule& params, const Columns& columns, const float* q, const float* k, const float* v,
          float beta, const float* decay, float* out) {
    f32x16 predicted[kVectors], result[kVectors], correction[kVectors];
    for (uint32_t j = 0; j < kVectors; ++j) predicted[j] = result[j] = simd::zero_f32();
    for (uint32_t i = 0; i < params.k_dim; ++i) {
        const f32x16 factor = simd::set1(decay[params.decays == 1 ? 0 : i]), key = simd::set1(k[i]);
        for (uint32_t j = 0; j < kVectors; ++j) {
            const f32x16 s = factor * columns.load(i, j);
            columns.store(i, j, s);
            predicted[j] = fma(key, s, predicted[j]);
        }
    }
    for (uint32_t j = 0; j < kVectors; ++j) {
        const f32x16 target = simd::load_partial(v + j * kLanes, columns.in_vector(j));
        correction[j] = simd::set1(beta) * (target - predicted[j]);
    }
    for (uint32_t i = 0; i < params.k_dim; ++i) {
        const f32x16 key = simd::set1(k[i]), query = simd::set1(q[i]);
        for (uint32_t j = 0; j < kVectors; ++j) {
            const f32x16 s = fma(key, correction[j], columns.load(i, j));
            columns.store(i, j, s);
            result[j] = fma(query, s, result[j]);
        }
    }
    for (uint32_t j = 0; j < kVectors; ++j) simd::store_partial(out + j * kLanes, result[j], columns.in_vector(j));
}

void run(const KernelArgs& args, uint32_t begin, uint32_t end, std::byte* scratch) {
    const GatedDeltaRule& params = args.as<GatedDeltaRule>();
    const size_t head_values = size_t{params.k_dim} * params.v_dim;
    float* decay = reinterpret_cast<float*>(scratch);
    for (uint32_t item = begin; item < end; ++item) {
        const uint32_t head_item = item / column_items(params), first = item % column_items(params) * kColumns;
        const uint32_t sequence = head_item / params.heads, h = head_item % params.heads;
        const uint32_t k_head = params.tiled != 0 ? h % params.k_heads : h / (params.heads / params.k_heads);
        const Span& span = args.operand<const Span>(gated_delta_rule::spans)[sequence];
        const auto slot = static_cast<size_t>(args.operand<const int32_t>(gated_delta_rule::state_slots)[sequence]);
        const uint32_t left = params.v_dim - first;
        const Columns columns{
            args.operand<float>(gated_delta_rule::state) + (slot * params.heads + h) * head_values + first,
            params.v_dim, left < kColumns ? left : kColumns};
        if (span.position_begin == 0) {
            for (uint32_t i = 0; i < params.k_dim; ++i)
                for (uint32_t j = 0; j < kVectors; ++j) columns.store(i, j, simd::zero_f32());
        }
        for (size_t row = span.row_begin; row < span.row_begin + span.n_rows; ++row) {
            const size_t head = row * params.heads + h, key = (row * params.k_heads + k_head) * params.k_dim;
            find_decay(args.operand<const float>(gated_delta_rule::dt) + head * params.decays,
                       args.operand<const float>(gated_delta_rule::dt_bias) + size_t{h} * params.decays,
                       args.operand<const float>(gated_delta_rule::a)[h], params.decays, decay);
            step(params, columns, args.operand<const float>(gated_delta_rule::q) + key,
                 args.operand<const float>(gated_delta_rule::k) + key,
                 args.operand<const float>(gated_delta_rule::v) + head * params.v_dim + first,
                 args.operand<const float>(gated_delta_rule::beta)[head], decay,
                 args.operand<float>(gated_delta_rule::out) + head * params.v_dim + first);
        }
    }
}

constexpr Kernel kKernels[] = {{"gated_delta_rule", &gated_delta_rule::signature, items, scratch_bytes, run}};

}  // namespace

std::span<const Kernel> gated_delta_rule_kernels() {
    return kKernels;
}

}  // namespace ferrule::cpu::FERRULE_ISA
