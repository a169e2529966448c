// How fast the card reads: all of a buffer, added up; what the benchmark compares others with.
#include <metal_stdlib>

using namespace metal;

struct ReadAll {
    uint vectors;
};

kernel void read_all(device const uint4* data [[buffer(0)]], device uint* out [[buffer(1)]],
                     constant ReadAll& params [[buffer(29)]], uint thread_index [[thread_position_in_grid]],
                     uint threads [[threads_per_grid]]) {
    uint4 sums[4] = {};
    for (uint i = thread_index; i < params.vectors; i += 4 * threads) {
        for (uint j = 0; j < 4; ++j) {
            if (i + j * threads < params.vectors) sums[j] ^= data[i + j * threads];
        }
    }
    const uint4 sum = sums[0] ^ sums[1] ^ sums[2] ^ sums[3];
    if ((sum.x ^ sum.y ^ sum.z ^ sum.w) == 0x9E3779B9u) out[0] = thread_index;  // or nothing would be read
}
