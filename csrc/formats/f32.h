// F32: values as they are.
#pragma once
#include "float16.h"

namespace ferrule::formats {

struct F32 {
    enum : uint32_t { kElements = 1, kGgmlType = 0 };
    float value;
};
static_assert(sizeof(F32) == 4);

#ifndef __METAL_VERSION__
static inline void decode(const F32& block, float* out) {
    out[0] = block.value;
}
#endif

}  // namespace ferrule::formats
