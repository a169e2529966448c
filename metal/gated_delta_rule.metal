// gated_delta_rule, see csrc/params/gated_delta_rule.h: the columns of a state do not depend on each other. A simdgroup
// takes kColumns of them over all tokens of a sequence; a column belongs to kSlices lanes, which hold every kSlices-th
// of its values in registers. Loops over values are unrolled.
#include <metal_stdlib>

#include "../csrc/params/gated_delta_rule.h"
#include "logarithms.h"

using namespace metal;
using namespace ferrule;

constant uint fc_k_dim [[function_constant(gated_delta_rule::fc_k_dim)]];

// exp(a * softplus(dt))
static float find_decay(float a, float dt) {
    return precise::exp(a * softplus(dt));
}

// The sum over a column's lanes.
static float column_sum(float value) {
    for (uint distance = gated_delta_rule::kSlices / 2; distance > 0; distance /= 2) {
        value += simd_shuffle_xor(value, distance);
    }
    return value;
}

kernel void gated_delta_rule(device const float* q [[buffer(gated_delta_rule::q)]],
                             device const float* k [[buffer(gated_delta_rule::k)]],
                             device const float* v [[buffer(gated_delta_rule::v)]],
                             device const float* beta [[buffer(gated_delta_rule::beta)]],
                             device const float* dt [[buffer(gated_delta_rule::dt)]],
                             device const float* a [[buffer(gated_delta_rule::a)]],
                             device const float* dt_bias [[buffer(gated_delta_rule::dt_bias)]],
                             device float* state [[buffer(gated_delta_rule::state)]],
                             device const Span* spans [[buffer(gated_delta_rule::spans)]],
                             device const int* state_slots [[buffer(gated_delta_rule::state_slots)]],
                             device float* out [[buffer(gated_delta_rule::out)]],
                             constant GatedDeltaRule& params [[buffer(params_buffer)]],
                             uint3 group [[threadgroup_position_in_grid]],
                             uint simdgroup [[simdgroup_index_in_threadgroup]],
                             uint lane [[thread_index_in_simdgroup]]) {
    constexpr uint kSlices = gated_delta_rule::kSlices;
    const uint slice = lane % kSlices, n_values = (fc_k_dim + kSlices - 1) / kSlices;
    const uint column =
        (group.x * gated_delta_rule::kSimdgroups + simdgroup) * gated_delta_rule::kColumns + lane / kSlices;
    const uint head = group.y, sequence = group.z, v_dim = params.v_dim;
    const uint k_head = params.tiled != 0 ? head % params.k_heads : head / (params.heads / params.k_heads);
    const bool exists = column < v_dim, one_decay = params.decays == 1;

    state += (ulong(state_slots[sequence]) * params.heads + head) * fc_k_dim * v_dim + column;
    float values[gated_delta_rule::kValuesPerLane], keys[gated_delta_rule::kValuesPerLane];
#pragma unroll
    for (uint j = 0; j < n_values; ++j) {
        const uint i = j * kSlices + slice;
        values[j] = exists && i < fc_k_dim && spans[sequence].position_begin > 0 ? state[i * v_dim] : 0.0f;
    }
    const uint end = spans[sequence].row_begin + spans[sequence].n_rows;
    for (uint row = spans[sequence].row_begin; row < end; ++row) {
        const ulong at = ulong(row) * params.heads + head, shared = (ulong(row) * params.k_heads + k_head) * fc_k_dim;
        float decays = 0, predicted = 0;  // decays: of the rows of the state that all lanes have next, one each
        if (one_decay) decays = find_decay(a[head], dt[at] + dt_bias[head]);
#pragma unroll
        for (uint j = 0; j < n_values; ++j) {
            const uint i = j * kSlices + slice, mine = j * kSlices + lane;
            if (!one_decay && j * kSlices % kSimdWidth == 0 && mine < fc_k_dim) {
                decays = find_decay(a[head], dt[at * fc_k_dim + mine] + dt_bias[head * fc_k_dim + mine]);
            }
            keys[j] = i < fc_k_dim ? k[shared + i] : 0.0f;
            values[j] *= one_decay ? decays : simd_shuffle(decays, i % kSimdWidth);
            predicted = fma(keys[j], values[j], predicted);
        }
        const float target = exists ? v[at * v_dim + column] : 0.0f;
        const float correction = beta[at] * (target - column_sum(predicted));
        float result = 0;
#pragma unroll
        for (uint j = 0; j < n_values; ++j) {
            const uint i = j * kSlices + slice;
            values[j] = fma(keys[j], correction, values[j]);
            result = fma(i < fc_k_dim ? q[shared + i] : 0.0f, values[j], result);
        }
        result = column_sum(result);
        if (exists && slice == 0) out[at * v_dim + column] = result;
    }
#pragma unroll
    for (uint j = 0; j < n_values; ++j) {
        const uint i = j * kSlices + slice;
        if (exists && i < fc_k_dim) state[i * v_dim] = values[j];
    }
}
