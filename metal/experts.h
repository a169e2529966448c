// What kernels of experts have in common, see csrc/params/expert_linear.h.
#pragma once
#include <metal_stdlib>

#include "../csrc/params/expert_linear.h"

namespace ferrule {

// An entry of the table of weights: an address.
template <class Block>
struct ExpertMatrix {
    device const Block* blocks;
};

// The expert that a row chose for one of its slots, and the weight that it gave it; see csrc/params/route.h.
inline uint expert_of(device const float* routes, uint slot, uint slots) {
    return uint(routes[ulong(slot / slots) * 2 * slots + slot % slots]);
}
inline float weight_of(device const float* routes, uint slot, uint slots) {
    return routes[(ulong(slot / slots) * 2 + 1) * slots + slot % slots];
}

// The part of x, of k values, that a slot reads.
inline uint part_of(uint slot, constant ExpertLinear& params) {
    return params.x_slots == 1 ? slot / params.slots : slot;
}

}  // namespace ferrule
