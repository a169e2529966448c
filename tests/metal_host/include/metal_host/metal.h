// Stand-in for <metal_stdlib>, included before every translated kernel. Compiled in two ways:
//   to run:    clang++, address spaces vanish, barriers and simdgroup operations go to the executor
//   to check:  METAL_HOST_STRICT, clang's C++ for OpenCL: address spaces are real, nothing is run
#pragma once
#include "language.h"
#include "vector.h"
// In this order: each builds on those above.
#include "atomic.h"
#include "math.h"
#include "simdgroup.h"
#include "simdgroup_matrix.h"
#ifndef METAL_HOST_STRICT
#include "arguments.h"
#endif
