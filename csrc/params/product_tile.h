// Tiles of products of many rows on Metal: a threadgroup of kThreads computes kRows rows and kColumns columns of a
// result, of kDepth inputs at a time.
#pragma once
#include "metal_dispatch.h"

namespace ferrule {

namespace product_tile {

FERRULE_CONSTANT uint32_t kRows = 32;
FERRULE_CONSTANT uint32_t kColumns = 64;
FERRULE_CONSTANT uint32_t kSize = kRows * kColumns;
FERRULE_CONSTANT uint32_t kDepth = 32;
FERRULE_CONSTANT uint32_t kThreads = 128;

}  // namespace product_tile

}  // namespace ferrule
