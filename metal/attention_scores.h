// What the attention kernels have in common, see csrc/params/attention.h.
#pragma once
#include <metal_stdlib>

namespace ferrule {

// The least position that a row at `position` sees.
inline uint first_visible(uint position, uint window, uint chunk) {
    const uint in_window = window == 0 || position < window ? 0 : position - window + 1;
    return chunk == 0 ? in_window : metal::max(in_window, position / chunk * chunk);
}

inline float capped(float score, float softcap) {
    return softcap > 0.0f ? softcap * metal::precise::tanh(score / softcap) : score;
}

// By what sums made with the maximum `before` are multiplied when the maximum becomes `after`.
inline float rescaling(float before, float after) {
    return before == -INFINITY ? 0.0f : metal::precise::exp(before - after);
}

}  // namespace ferrule
