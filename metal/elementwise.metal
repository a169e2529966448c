// Ops with a thread per value of the result, see their headers in csrc/params.
#include <metal_stdlib>

#include "../csrc/params/add.h"
#include "../csrc/params/clamp.h"
#include "../csrc/params/metal_dispatch.h"
#include "../csrc/params/multiply.h"
#include "../csrc/params/scale.h"
#include "../csrc/params/scale_by_position.h"
#include "../csrc/params/softcap.h"
#include "../csrc/params/take_columns.h"
#include "../csrc/params/take_rows.h"
#include "../csrc/params/xielu.h"
#include "logarithms.h"

using namespace metal;
using namespace ferrule;

static float apply(constant Clamp& params, float x) {
    // Comparisons, unlike min and max, pass NaN on.
    return x > params.limit ? params.limit : x < -params.limit ? -params.limit : x;
}

static float apply(constant Scale& params, float x) {
    return params.factor * x;
}

static float apply(constant Softcap& params, float x) {
    return params.cap * precise::tanh(x / params.cap);
}

static float apply(constant Xielu& params, float x) {
    const float above = params.positive * x * x, below = params.negative * (expm1(min(x, params.eps)) - x);
    return fma(params.beta, x, x > 0.0f ? above : below);
}

// Ops of one operand, whose signatures have the same order.
template <class Params>
kernel void map(device const float* x [[buffer(scale::x)]],
                device float* out [[buffer(scale::out)]],
                constant Params& params [[buffer(params_buffer)]],
                uint2 position [[thread_position_in_grid]]) {
    if (position.x >= params.width) return;
    const ulong i = ulong(position.y) * params.width + position.x;
    out[i] = apply(params, x[i]);
}

template [[host_name("clamp")]] kernel decltype(map<Clamp>) map<Clamp>;
template [[host_name("scale")]] kernel decltype(map<Scale>) map<Scale>;
template [[host_name("softcap")]] kernel decltype(map<Softcap>) map<Softcap>;
template [[host_name("xielu")]] kernel decltype(map<Xielu>) map<Xielu>;

kernel void add(device const float* a [[buffer(add::a)]],
                device const float* b [[buffer(add::b)]],
                device float* out [[buffer(add::out)]],
                constant Add& params [[buffer(params_buffer)]],
                uint2 position [[thread_position_in_grid]]) {
    if (position.x >= params.width) return;
    const ulong i = ulong(position.y) * params.width + position.x;
    out[i] = a[i] + b[i];
}

kernel void multiply(device const float* x [[buffer(multiply::x)]],
                     device const float* factors [[buffer(multiply::factors)]],
                     device float* out [[buffer(multiply::out)]],
                     constant Multiply& params [[buffer(params_buffer)]],
                     uint2 position [[thread_position_in_grid]]) {
    if (position.x >= params.width) return;
    const ulong i = ulong(position.y) * params.width + position.x;
    out[i] = x[i] * factors[ulong(position.y) * params.factor_stride + position.x / params.group];
}

kernel void scale_by_position(device const float* x [[buffer(scale_by_position::x)]],
                              device const int* positions [[buffer(scale_by_position::positions)]],
                              device float* out [[buffer(scale_by_position::out)]],
                              constant ScaleByPosition& params [[buffer(params_buffer)]],
                              uint2 position [[thread_position_in_grid]]) {
    if (position.x >= params.width) return;
    const ulong i = ulong(position.y) * params.width + position.x;
    const float periods = floor(float(uint(positions[position.y]) + params.offset) / params.period);
    out[i] = x[i] * fma(params.beta, precise::log(1.0f + periods), 1.0f);
}

kernel void take_columns(device const float* x [[buffer(take_columns::x)]],
                         device float* out [[buffer(take_columns::out)]],
                         constant TakeColumns& params [[buffer(params_buffer)]],
                         uint2 position [[thread_position_in_grid]]) {
    if (position.x >= params.count) return;
    out[ulong(position.y) * params.count + position.x] =
        x[ulong(position.y) * params.width + params.begin + position.x];
}

kernel void take_rows(device const float* x [[buffer(take_rows::x)]],
                      device const int* index [[buffer(take_rows::index)]],
                      device float* out [[buffer(take_rows::out)]],
                      constant TakeRows& params [[buffer(params_buffer)]],
                      uint2 position [[thread_position_in_grid]]) {
    if (position.x >= params.width) return;
    const ulong i = ulong(position.y) * params.width + position.x;
    out[i] = x[ulong(index[position.y]) * params.width + position.x];
}
