// BF16: the upper half of a float32.
#pragma once
#include "float16.h"

namespace ferrule::formats {

struct BF16 {
    enum : uint32_t { kElements = 1, kGgmlType = 30 };
    uint16_t value;
};
static_assert(sizeof(BF16) == 2);

#ifndef __METAL_VERSION__
static inline void decode(const BF16& block, float* out) {
    out[0] = bf16_to_f32(block.value);
}
#endif

}  // namespace ferrule::formats
