// Sums over a row for norms: values are summed in 16 lanes (lane = i % 16), then the lanes in float64. The relative
// error stays near width / 16 * 2^-24 at worst and is about 1e-7 in practice.
#pragma once
#include <cstdint>

namespace ferrule::cpu::FERRULE_ISA {

// Sum over i of value(i).
template <class F>
[[gnu::always_inline]] inline double sum_in_lanes(uint32_t width, F value) {
    constexpr uint32_t kLanes = 16;
    float lanes[kLanes] = {};
    uint32_t i = 0;
    for (; i + kLanes <= width; i += kLanes) {
        for (uint32_t lane = 0; lane < kLanes; ++lane) lanes[lane] += value(i + lane);
    }
    for (uint32_t lane = 0; i < width; ++i, ++lane) lanes[lane] += value(i);
    double sum = 0;
    for (float lane : lanes) sum += lane;
    return sum;
}

}  // namespace ferrule::cpu::FERRULE_ISA
