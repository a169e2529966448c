// ssm_scan, see csrc/params/ssm_scan.h: the rows of a state, one for each value of a head, do not depend on each other.
// A row belongs to lanes_per_row lanes of a simdgroup, which hold it in registers over all tokens of a sequence.
#include <metal_stdlib>

#include "../csrc/params/ssm_scan.h"
#include "logarithms.h"

using namespace metal;
using namespace ferrule;

constant bool has_dt_bias [[function_constant(ssm_scan::has_dt_bias)]];
constant uint fc_n [[function_constant(ssm_scan::fc_n)]];

kernel void ssm_scan(device const float* x [[buffer(ssm_scan::x)]],
                     device const float* dt [[buffer(ssm_scan::dt)]],
                     device const float* b [[buffer(ssm_scan::b)]],
                     device const float* c [[buffer(ssm_scan::c)]],
                     device const float* a [[buffer(ssm_scan::a)]],
                     device const float* d [[buffer(ssm_scan::d)]],
                     device const float* dt_bias [[buffer(ssm_scan::dt_bias), function_constant(has_dt_bias)]],
                     device float* state [[buffer(ssm_scan::state)]],
                     device const Span* spans [[buffer(ssm_scan::spans)]],
                     device const int* state_slots [[buffer(ssm_scan::state_slots)]],
                     device float* out [[buffer(ssm_scan::out)]],
                     constant SsmScan& params [[buffer(params_buffer)]],
                     uint2 position [[thread_position_in_grid]],
                     uint simd_lane [[thread_index_in_simdgroup]]) {
    const uint lanes = ssm_scan::lanes_per_row(fc_n), lane = position.x % lanes;
    const uint state_row = position.x / lanes, state_rows = params.heads * params.head_dim, sequence = position.y;
    if (state_row >= state_rows) return;
    const uint head = state_row / params.head_dim, group = head / (params.heads / params.groups);
    const bool diagonal = params.a_width != 1;
    const float head_bias = has_dt_bias ? dt_bias[head] : 0.0f;

    state += (ulong(state_slots[sequence]) * state_rows + state_row) * fc_n;
    float values[ssm_scan::kValuesPerLane], factors[ssm_scan::kValuesPerLane];
#pragma unroll
    for (uint j = 0; j < ssm_scan::kValuesPerLane; ++j) {
        const uint i = j * lanes + lane;
        values[j] = i < fc_n && spans[sequence].position_begin > 0 ? state[i] : 0.0f;
        factors[j] = diagonal && i < fc_n ? a[head * fc_n + i] : 0.0f;
    }
    const uint end = spans[sequence].row_begin + spans[sequence].n_rows;
    for (uint begin = spans[sequence].row_begin; begin < end; begin += lanes) {
        // Each lane finds the step of one of the next tokens, and its decay where that is the same for all of a row.
        float steps = 0, decays = 0;
        if (begin + lane < end) {
            const float wanted = softplus(dt[ulong(begin + lane) * params.heads + head] + head_bias);
            steps = clamp(wanted, params.dt_min, params.dt_max);
            if (!diagonal) decays = precise::exp(steps * a[head]);
        }
        for (uint row = begin; row < min(begin + lanes, end); ++row) {
            const uint source = simd_lane - lane + row - begin;
            const float step = simd_shuffle(steps, source), input = x[ulong(row) * state_rows + state_row];
            const float added = step * input;
            const ulong shared = (ulong(row) * params.groups + group) * fc_n;
            float sum = 0, decay = simd_shuffle(decays, source);
#pragma unroll
            for (uint j = 0; j < ssm_scan::kValuesPerLane; ++j) {
                const uint i = j * lanes + lane;
                if (i >= fc_n) continue;
                if (diagonal) decay = precise::exp(step * factors[j]);
                values[j] = fma(added, b[shared + i], decay * values[j]);
                sum = fma(values[j], c[shared + i], sum);
            }
            for (uint distance = lanes / 2; distance > 0; distance /= 2) sum += simd_shuffle_xor(sum, distance);
            if (lane == 0) out[ulong(row) * state_rows + state_row] = fma(d[head], input, sum);
        }
    }
#pragma unroll
    for (uint j = 0; j < ssm_scan::kValuesPerLane; ++j) {
        const uint i = j * lanes + lane;
        if (i < fc_n) state[i] = values[j];
    }
}
