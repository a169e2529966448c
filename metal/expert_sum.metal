// expert_sum, see csrc/params/expert_sum.h: a thread per value.
#include <metal_stdlib>

#include "../csrc/params/expert_sum.h"
#include "../csrc/params/metal_dispatch.h"

using namespace metal;
using namespace ferrule;

constant bool has_residual [[function_constant(expert_sum::has_residual)]];
constant uint fc_weighted [[function_constant(expert_sum::fc_weighted)]];

kernel void expert_sum(device const float* x [[buffer(expert_sum::x)]],
                       device const float* routes [[buffer(expert_sum::routes)]],
                       device const float* residual [[buffer(expert_sum::residual), function_constant(has_residual)]],
                       device float* out [[buffer(expert_sum::out)]],
                       constant ExpertSum& params [[buffer(params_buffer)]],
                       uint2 position [[thread_position_in_grid]]) {
    const uint width = params.width, slots = params.slots;
    const ulong row = position.y, i = row * width + position.x;
    if (position.x >= width) return;
    float sum = 0;
    for (uint slot = 0; slot < slots; ++slot) {
        const float value = x[(row * slots + slot) * width + position.x];
        sum += fc_weighted != 0 ? routes[(2 * row + 1) * slots + slot] * value : value;
    }
    out[i] = has_residual ? sum + residual[i] : sum;
}
