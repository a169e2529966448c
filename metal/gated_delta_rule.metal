// gated_delta_rule, see csrc/params/gated_delta_rule.h: the columns of a state do not depend on each other. A simdgroup
// holds kColumns of them in registers over all tokens of a sequence; lanes share out their length.
#include <metal_stdlib>

#include "../csrc/params/gated_delta_rule.h"
#include "logarithms.h"

using namespace metal;
using namespace ferrule;

constant uint fc_k_dim [[function_constant(gated_delta_rule::fc_k_dim)]];

// The lane's share of one token: every kSimdWidth-th value of a query, a key, and the decays of a state's rows.
struct Token {
    float query[gated_delta_rule::kRowsPerLane];
    float key[gated_delta_rule::kRowsPerLane];
    float decay[gated_delta_rule::kRowsPerLane];
};

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
    constexpr uint kColumns = gated_delta_rule::kColumns, kRows = gated_delta_rule::kRowsPerLane;
    const uint first = (group.x * gated_delta_rule::kSimdgroups + simdgroup) * kColumns;
    const uint head = group.y, sequence = group.z, v_dim = params.v_dim;
    if (first >= v_dim) return;
    const uint n_columns = min(kColumns, v_dim - first);
    const uint k_head = params.tiled != 0 ? head % params.k_heads : head / (params.heads / params.k_heads);

    state += (ulong(state_slots[sequence]) * params.heads + head) * fc_k_dim * v_dim + first;
    float values[kRows][kColumns];
#pragma unroll
    for (uint j = 0; j < kRows; ++j) {
        const uint i = j * kSimdWidth + lane;
#pragma unroll
        for (uint column = 0; column < kColumns; ++column) {
            const bool exists = i < fc_k_dim && column < n_columns && spans[sequence].position_begin > 0;
            values[j][column] = exists ? state[i * v_dim + column] : 0.0f;
        }
    }
    const uint end = spans[sequence].row_begin + spans[sequence].n_rows;
    for (uint row = spans[sequence].row_begin; row < end; ++row) {
        const ulong at = ulong(row) * params.heads + head, shared = (ulong(row) * params.k_heads + k_head) * fc_k_dim;
        Token token;
#pragma unroll
        for (uint j = 0; j < kRows; ++j) {
            const uint i = j * kSimdWidth + lane, decay = params.decays == 1 ? 0 : i;
            const bool exists = i < fc_k_dim;
            token.query[j] = exists ? q[shared + i] : 0.0f;
            token.key[j] = exists ? k[shared + i] : 0.0f;
            const float step =
                exists ? softplus(dt[at * params.decays + decay] + dt_bias[head * params.decays + decay]) : 0.0f;
            token.decay[j] = precise::exp(a[head] * step);
        }
#pragma unroll
        for (uint column = 0; column < kColumns; ++column) {
            if (column >= n_columns) continue;
            float predicted = 0;
#pragma unroll
            for (uint j = 0; j < kRows; ++j) {
                values[j][column] *= token.decay[j];
                predicted = fma(token.key[j], values[j][column], predicted);
            }
            const float correction = beta[at] * (v[at * v_dim + first + column] - simd_sum(predicted));
            float result = 0;
#pragma unroll
            for (uint j = 0; j < kRows; ++j) {
                values[j][column] = fma(token.key[j], correction, values[j][column]);
                result = fma(token.query[j], values[j][column], result);
            }
            result = simd_sum(result);
            if (lane == 0) out[at * v_dim + first + column] = result;
        }
    }
#pragma unroll
    for (uint j = 0; j < kRows; ++j) {
        const uint i = j * kSimdWidth + lane;
#pragma unroll
        for (uint column = 0; column < kColumns; ++column) {
            if (i < fc_k_dim && column < n_columns) state[i * v_dim + column] = values[j][column];
        }
    }
}
