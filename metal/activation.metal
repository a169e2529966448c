// activation, see csrc/params/activation.h: a thread per value.
#include <metal_stdlib>

#include "activations.h"

using namespace metal;
using namespace ferrule;

constant uint fc_activation [[function_constant(activation::fc_activation)]];

kernel void activation(device const float* x [[buffer(activation::x)]],
                       device float* out [[buffer(activation::out)]],
                       constant UnaryActivation& params [[buffer(params_buffer)]],
                       uint2 position [[thread_position_in_grid]]) {
    if (position.x >= params.width) return;
    const ulong i = ulong(position.y) * params.width + position.x;
    out[i] = activate(Activation(fc_activation), x[i]);
}
