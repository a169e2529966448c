// F16: IEEE half precision.
#pragma once
#include "float16.h"

namespace ferrule::formats {

struct F16 {
    enum : uint32_t { kElements = 1, kGgmlType = 1 };
    uint16_t value;
};
static_assert(sizeof(F16) == 2);

#ifndef __METAL_VERSION__
static inline void decode(const F16& block, float* out) {
    out[0] = f16_to_f32(block.value);
}
#endif

}  // namespace ferrule::formats
