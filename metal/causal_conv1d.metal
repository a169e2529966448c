// causal_conv1d, see csrc/params/causal_conv1d.h: a thread goes over kRun tokens of one channel of a sequence; that of
// the first ones, which alone need the state, then renews it. Neighbouring threads are neighbouring channels, which are
// neighbours in memory.
#include <metal_stdlib>

#include "../csrc/params/causal_conv1d.h"

using namespace metal;
using namespace ferrule;

constant bool has_bias [[function_constant(causal_conv1d::has_bias)]];

// A channel's inputs of the step and, before them, of earlier steps.
struct Channel {
    device const float* x;  // of the step's first token
    device float* state;    // [history], oldest first
    bool begins;
    uint stride;  // between tokens
    int history;  // taps - 1

    // Of token t, counted from the step's first, t >= -history.
    float input(int t) const {
        if (t >= 0) return x[ulong(t) * stride];
        return begins ? 0.0f : state[ulong(t + history) * stride];
    }
};

kernel void causal_conv1d(device const float* x [[buffer(causal_conv1d::x)]],
                          device const float* weight [[buffer(causal_conv1d::weight)]],
                          device const float* bias [[buffer(causal_conv1d::bias), function_constant(has_bias)]],
                          device float* state [[buffer(causal_conv1d::state)]],
                          device const Span* spans [[buffer(causal_conv1d::spans)]],
                          device const int* state_slots [[buffer(causal_conv1d::state_slots)]],
                          device float* out [[buffer(causal_conv1d::out)]],
                          constant CausalConv1d& params [[buffer(params_buffer)]],
                          uint3 position [[thread_position_in_grid]]) {
    const uint c = position.x, sequence = position.y, channels = params.channels;
    const int begin = int(position.z * causal_conv1d::kRun), n_rows = int(spans[sequence].n_rows);
    if (c >= channels || begin >= n_rows) return;
    const int history = int(params.taps) - 1, end = min(begin + int(causal_conv1d::kRun), n_rows);
    const ulong first = ulong(spans[sequence].row_begin) * channels + c;
    const ulong slot = ulong(state_slots[sequence]) * uint(history) * channels + c;
    const Channel channel = {x + first, state + slot, spans[sequence].position_begin == 0, channels, history};
    for (int t = begin; t < end; ++t) {
        float sum = 0;
        if (has_bias) sum = bias[c];
        for (int i = 0; i <= history; ++i) {
            sum = fma(weight[c * params.taps + uint(i)], channel.input(t + i - history), sum);
        }
        out[first + ulong(t) * channels] = sum;
    }
    if (begin > 0) return;
    // In order: what is read lies at or behind what is written.
    for (int i = 0; i < history; ++i) channel.state[ulong(i) * channels] = channel.input(n_rows + i - history);
}
