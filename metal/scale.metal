// scale, see csrc/params/scale.h: a thread per value.
#include <metal_stdlib>

#include "../csrc/params/scale.h"

using namespace metal;
using namespace ferrule;

kernel void scale(device const float* x [[buffer(scale::x)]],
                  device float* out [[buffer(scale::out)]],
                  constant Scale& params [[buffer(params_buffer)]],
                  uint2 position [[thread_position_in_grid]]) {
    if (position.x >= params.width) return;
    const ulong i = ulong(position.y) * params.width + position.x;
    out[i] = params.factor * x[i];
}
