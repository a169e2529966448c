// softcap, see csrc/params/softcap.h: a thread per value.
#include <metal_stdlib>

#include "../csrc/params/softcap.h"

using namespace metal;
using namespace ferrule;

kernel void softcap(device const float* x [[buffer(softcap::x)]],
                    device float* out [[buffer(softcap::out)]],
                    constant Softcap& params [[buffer(params_buffer)]],
                    uint2 position [[thread_position_in_grid]]) {
    if (position.x >= params.width) return;
    const ulong i = ulong(position.y) * params.width + position.x;
    out[i] = params.cap * precise::tanh(x[i] / params.cap);
}
