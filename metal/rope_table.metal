// rope_table, see csrc/params/rope_table.h: a thread per angle.
#include <metal_stdlib>

#include "../csrc/params/rope_table.h"

using namespace metal;
using namespace ferrule;

// position * frequency reduced to about [-pi, pi]. In float32 the product of a large position is off by more than the
// angle's useful digits, so it is kept as a sum of two floats, and so is 2 pi (Cody & Waite 1980).
static float reduced_angle(float position, float frequency) {
    const float product = position * frequency, error = fma(position, frequency, -product);
    const float turns = rint(product * 0.15915494309f);
    float angle = fma(-turns, 6.28318548f, product);
    angle = fma(-turns, -1.74845553e-7f, angle);
    return angle + error;
}

kernel void rope_table(device const int* positions [[buffer(rope_table::positions)]],
                       device const float* frequencies [[buffer(rope_table::frequencies)]],
                       device float* out [[buffer(rope_table::out)]],
                       constant RopeTable& params [[buffer(params_buffer)]],
                       uint2 position [[thread_position_in_grid]]) {
    const uint i = position.x, row = position.y, n = params.n;
    if (i >= n) return;
    const float angle = reduced_angle(float(positions[row]), frequencies[i]);
    device float* cosines = out + ulong(row) * 2 * n;
    cosines[i] = params.scale * precise::cos(angle);
    cosines[n + i] = params.scale * precise::sin(angle);
}
