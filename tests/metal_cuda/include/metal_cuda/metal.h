// Stand-in for <metal_stdlib> on CUDA, included before every translated kernel: plain C++ for NVPTX, without CUDA's
// headers. Address spaces vanish, a simdgroup is a warp, a threadgroup a block. Keywords, vectors and most functions
// are those of tests/metal_host.
#pragma once
#include "../../../metal_host/include/metal_host/language.h"
#include "../../../metal_host/include/metal_host/vector.h"
// In this order: each builds on those above.
#include "atomic.h"
#include "math.h"
#include "memory.h"
#include "simdgroup.h"
#include "simdgroup_matrix.h"
