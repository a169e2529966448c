// A plan bound to weights and a cache on a GPU.
#pragma once
#include "metal_gpu.h"

namespace ferrule::metal {

// Throws as Executor::bind does. The GPU must outlive the program.
std::unique_ptr<Program> make_program(Gpu& gpu, Plan plan, std::span<const Bytes> weights, std::span<std::byte> cache);

}  // namespace ferrule::metal
