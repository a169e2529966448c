// rope_table, sectioned_rope_table, long_rope_table and dynamic_rope_table, see their headers in csrc/params: a thread
// per angle.
#include <metal_stdlib>

#include "../csrc/params/dynamic_rope_table.h"
#include "../csrc/params/long_rope_table.h"
#include "../csrc/params/rope_table.h"
#include "../csrc/params/sectioned_rope_table.h"

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

// Angle i of n in a row.
static void write_angle(int position, float frequency, float scale, uint row, uint i, uint n, device float* out) {
    const float angle = reduced_angle(float(position), frequency);
    device float* cosines = out + ulong(row) * 2 * n;
    cosines[i] = scale * precise::cos(angle);
    cosines[n + i] = scale * precise::sin(angle);
}

kernel void rope_table(device const int* positions [[buffer(rope_table::positions)]],
                       device const float* frequencies [[buffer(rope_table::frequencies)]],
                       device float* out [[buffer(rope_table::out)]],
                       constant RopeTable& params [[buffer(params_buffer)]],
                       uint2 position [[thread_position_in_grid]]) {
    const uint i = position.x, row = position.y;
    if (i >= params.n) return;
    write_angle(positions[row], frequencies[i], params.scale, row, i, params.n, out);
}

kernel void sectioned_rope_table(device const int* axis_positions [[buffer(sectioned_rope_table::axis_positions)]],
                                 device const float* frequencies [[buffer(sectioned_rope_table::frequencies)]],
                                 device const float* axes [[buffer(sectioned_rope_table::axes)]],
                                 device float* out [[buffer(sectioned_rope_table::out)]],
                                 constant SectionedRopeTable& params [[buffer(params_buffer)]],
                                 uint2 position [[thread_position_in_grid]]) {
    const uint i = position.x, row = position.y;
    if (i >= params.n) return;
    const int on_axis = axis_positions[ulong(row) * 3 + uint(axes[i])];
    write_angle(on_axis, frequencies[i], params.scale, row, i, params.n, out);
}

kernel void long_rope_table(device const int* positions [[buffer(long_rope_table::positions)]],
                            device const int* lengths [[buffer(long_rope_table::lengths)]],
                            device const float* short_frequencies [[buffer(long_rope_table::short_frequencies)]],
                            device const float* long_frequencies [[buffer(long_rope_table::long_frequencies)]],
                            device float* out [[buffer(long_rope_table::out)]],
                            constant LongRopeTable& params [[buffer(params_buffer)]],
                            uint2 position [[thread_position_in_grid]]) {
    const uint i = position.x, row = position.y;
    if (i >= params.n) return;
    const bool is_long = lengths[row] > int(params.threshold);
    const float frequency = is_long ? long_frequencies[i] : short_frequencies[i];
    write_angle(positions[row], frequency, is_long ? params.long_scale : params.short_scale, row, i, params.n, out);
}

kernel void dynamic_rope_table(device const int* positions [[buffer(dynamic_rope_table::positions)]],
                               device const int* lengths [[buffer(dynamic_rope_table::lengths)]],
                               device const float* frequencies [[buffer(dynamic_rope_table::frequencies)]],
                               device float* out [[buffer(dynamic_rope_table::out)]],
                               constant DynamicRopeTable& params [[buffer(params_buffer)]],
                               uint2 position [[thread_position_in_grid]]) {
    const uint i = position.x, row = position.y;
    if (i >= params.n) return;
    const float ratio = float(max(lengths[row], int(params.threshold))) / float(params.threshold);
    const float stretch = params.factor * ratio - (params.factor - 1.0f);
    const float shrink = precise::exp(-float(i) / float(params.n - 1) * precise::log(stretch));
    write_angle(positions[row], frequencies[i] * shrink, 1.0f, row, i, params.n, out);
}
