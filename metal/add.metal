// add, see csrc/params/add.h: a thread per value.
#include <metal_stdlib>

#include "../csrc/params/add.h"

using namespace metal;
using namespace ferrule;

kernel void add(device const float* a [[buffer(add::a)]],
                device const float* b [[buffer(add::b)]],
                device float* out [[buffer(add::out)]],
                constant Add& params [[buffer(params_buffer)]],
                uint2 position [[thread_position_in_grid]]) {
    if (position.x >= params.width) return;
    const ulong i = ulong(position.y) * params.width + position.x;
    out[i] = a[i] + b[i];
}
