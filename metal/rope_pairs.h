// Which two values of a head rotate together, see csrc/params/rope.h.
#pragma once
#include <metal_stdlib>

namespace ferrule {

struct RopePair {
    uint first, second;
};

// Pair i of n.
inline RopePair rope_pair(uint pairing, uint i, uint n) {
    return pairing == 0 ? RopePair{i, i + n} : RopePair{2 * i, 2 * i + 1};
}

// (a, b) rotated by the angle with the given cosine and sine.
inline metal::vec<float, 2> rotate(float a, float b, float cosine, float sine) {
    return metal::vec<float, 2>{a * cosine - b * sine, b * cosine + a * sine};
}

}  // namespace ferrule
