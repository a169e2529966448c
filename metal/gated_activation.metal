// gated_activation, see csrc/params/gated_activation.h: a thread per value.
#include <metal_stdlib>

#include "../csrc/params/gated_activation.h"
#include "activations.h"

using namespace metal;
using namespace ferrule;

constant uint fc_activation [[function_constant(gated_activation::fc_activation)]];

kernel void gated_activation(device const float* gate [[buffer(gated_activation::gate)]],
                             device const float* up [[buffer(gated_activation::up)]],
                             device float* out [[buffer(gated_activation::out)]],
                             constant GatedActivation& params [[buffer(params_buffer)]],
                             uint2 position [[thread_position_in_grid]]) {
    if (position.x >= params.width) return;
    const ulong i = ulong(position.y) * params.width + position.x;
    out[i] = activate(Activation(fc_activation), gate[i]) * up[i];
}
