// take_rows, see csrc/params/take_rows.h: a thread per value.
#include <metal_stdlib>

#include "../csrc/params/take_rows.h"

using namespace metal;
using namespace ferrule;

kernel void take_rows(device const float* x [[buffer(take_rows::x)]],
                      device const int* index [[buffer(take_rows::index)]],
                      device float* out [[buffer(take_rows::out)]],
                      constant TakeRows& params [[buffer(params_buffer)]],
                      uint2 position [[thread_position_in_grid]]) {
    if (position.x >= params.width) return;
    const ulong i = ulong(position.y) * params.width + position.x;
    out[i] = x[ulong(index[position.y]) * params.width + position.x];
}
