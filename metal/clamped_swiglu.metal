// clamped_swiglu, see csrc/params/clamped_swiglu.h: a thread per value.
#include <metal_stdlib>

#include "../csrc/params/clamped_swiglu.h"
#include "../csrc/params/metal_dispatch.h"
#include "activations.h"

using namespace metal;
using namespace ferrule;

kernel void clamped_swiglu(device const float* gate [[buffer(clamped_swiglu::gate)]],
                           device const float* up [[buffer(clamped_swiglu::up)]],
                           device float* out [[buffer(clamped_swiglu::out)]],
                           constant ClampedSwiglu& params [[buffer(params_buffer)]],
                           uint2 position [[thread_position_in_grid]]) {
    if (position.x >= params.width) return;
    const ulong i = ulong(position.y) * params.width + position.x;
    const float g = min(gate[i], params.limit), u = clamp(up[i], -params.limit, params.limit);
    out[i] = g * activate(Activation::sigmoid, params.alpha * g) * (u + 1.0f);
}
