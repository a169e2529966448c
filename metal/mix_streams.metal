// mix_streams, see csrc/params/mix_streams.h: a thread per value.
#include <metal_stdlib>

#include "../csrc/params/mix_streams.h"

using namespace metal;
using namespace ferrule;

constant bool has_residual [[function_constant(mix_streams::has_residual)]];

kernel void mix_streams(device const float* x [[buffer(mix_streams::x)]],
                        device const float* coefficients [[buffer(mix_streams::coefficients)]],
                        device const float* residual [[buffer(mix_streams::residual), function_constant(has_residual)]],
                        device float* out [[buffer(mix_streams::out)]],
                        constant MixStreams& params [[buffer(params_buffer)]],
                        uint3 position [[thread_position_in_grid]]) {
    if (position.x >= params.width) return;
    const ulong row = position.y, stream = position.z;
    const ulong i = (row * params.outputs + stream) * params.width + position.x;
    x += row * params.inputs * params.width + position.x;
    coefficients += row * params.coefficient_stride + stream * params.inputs;
    float sum = has_residual ? residual[i] : 0.0f;
    for (uint j = 0; j < params.inputs; ++j) sum = fma(coefficients[j], x[ulong(j) * params.width], sum);
    out[i] = sum;
}
