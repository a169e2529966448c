// The kernels of one ISA. registry.cpp is compiled once per ISA, each time in that ISA's namespace.
#pragma once
#include <span>

#include "kernel.h"

namespace ferrule::cpu {

using KernelTable = std::span<const std::span<const Kernel>>;  // one entry per kernel file

}  // namespace ferrule::cpu
