// ssm_scan: see params/ssm_scan.h. A work item is a few heads of one sequence, over all of its tokens; lanes run along
// the n values of a state's row, and are added by halving.
#include "../params/ssm_scan.h"

#include "kernel.h"
#include "simd/math.h"

namespace ferrule::cpu::FERRULE_ISA {

namespace {

using simd::f32x16;

constexpr uint32_t kLanes = 16;

// Steps are computed for 16 values at a time: heads of one value go together.
uint32_t heads_per_item(const SsmScan& params) {
    return params.head_dim < kLanes ? kLanes / params.head_dim : 1;
}

uint32_t items_per_sequence(const SsmScan& params) {
    return (params.heads + heads_per_item(params) - 1) / heads_per_item(params);
}

uint32_t items(const KernelArgs& args) {
    return args.dims.sequences * items_per_sequence(args.as<SsmScan>());
}

f32x16 limited_step(const SsmScan& params, f32x16 dt) {
    return max(simd::set1(params.dt_min), min(simd::set1(params.dt_max), softplus(dt)));
}

// Heads first .. first + n_heads - 1 of a slot's state, set to zero where the sequence begins.
float* sequence_state(float* states, const Span& span, int32_t slot, size_t slot_values, size_t first,
                      size_t head_values, size_t n_heads) {
    float* state = states + static_cast<size_t>(slot) * slot_values + first * head_values;
    if (span.position_begin == 0) {
        for (size_t i = 0; i < n_heads * head_values; ++i) state[i] = 0;
    }
    return state;
}

// One token of one head; state: [head_dim, n].
void scan(const SsmScan& params, const float* x, float step, const float* a, float decay, const float* b,
          const float* c, float d, float* state, float* out) {
    for (uint32_t p = 0; p < params.head_dim; ++p, state += params.n) {
        const f32x16 added = simd::set1(step * x[p]);
        f32x16 sum = simd::zero_f32();
        for (uint32_t i = 0; i < params.n; i += kLanes) {
            const uint32_t left = params.n - i < kLanes ? params.n - i : kLanes;
            const f32x16 factor =
                params.a_width == 1 ? simd::set1(decay) : exp(simd::set1(step) * simd::load_partial(a + i, left));
            const f32x16 s = fma(added, simd::load_partial(b + i, left), factor * simd::load_partial(state + i, left));
            simd::store_partial(state + i, s, left);
            sum = fma(s, simd::load_partial(c + i, left), sum);
        }
        out[p] = reduce_add(sum) + d * x[p];
    }
}

void run(const KernelArgs& args, uint32_t begin, uint32_t end, std::byte*) {
    const SsmScan& params = args.as<SsmScan>();
    const size_t head_values = size_t{params.head_dim} * params.n, shared = size_t{params.groups} * params.n;
    const float* a = args.operand<const float>(ssm_scan::a);
    const float* dt_bias = args.operand<const float>(ssm_scan::dt_bias);
    for (uint32_t item = begin; item < end; ++item) {
        const uint32_t sequence = item / items_per_sequence(params);
        const Span& span = args.operand<const Span>(ssm_scan::spans)[sequence];
        const int32_t slot = args.operand<const int32_t>(ssm_scan::state_slots)[sequence];
        const uint32_t first = item % items_per_sequence(params) * heads_per_item(params);
        const uint32_t left = params.heads - first;
        const uint32_t n_heads = left < heads_per_item(params) ? left : heads_per_item(params);
        float* state = sequence_state(args.operand<float>(ssm_scan::state), span, slot, params.heads * head_values,
                                      first, head_values, n_heads);
        for (size_t row = span.row_begin; row < span.row_begin + span.n_rows; ++row) {
            f32x16 dt =
                simd::load_partial(args.operand<const float>(ssm_scan::dt) + row * params.heads + first, n_heads);
            if (dt_bias != nullptr) dt += simd::load_partial(dt_bias + first, n_heads);
            float steps[kLanes], decays[kLanes];
            simd::store(steps, limited_step(params, dt));
            if (params.a_width == 1) {
                simd::store(decays, exp(simd::load(steps) * simd::load_partial(a + first, n_heads)));
            }
            for (uint32_t i = 0; i < n_heads; ++i) {
                const uint32_t h = first + i, group = h / (params.heads / params.groups);
                const size_t at = (row * params.heads + h) * params.head_dim;
                scan(params, args.operand<const float>(ssm_scan::x) + at, steps[i], a + size_t{h} * params.a_width,
                     decays[i], args.operand<const float>(ssm_scan::b) + row * shared + group * params.n,
                     args.operand<const float>(ssm_scan::c) + row * shared + group * params.n,
                     args.operand<const float>(ssm_scan::d)[h], state + i * head_values,
                     args.operand<float>(ssm_scan::out) + at);
            }
        }
    }
}

constexpr Kernel kKernels[] = {{"ssm_scan", &ssm_scan::signature, items, nullptr, run}};

}  // namespace

std::span<const Kernel> ssm_scan_kernels() {
    return kKernels;
}

}  // namespace ferrule::cpu::FERRULE_ISA
