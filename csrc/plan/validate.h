// Checks a plan before anything runs it, and the sizes of a step, so that executors need no checks of their own.
#pragma once
#include <cstdint>
#include <span>

#include "../params/signature.h"
#include "plan.h"

namespace ferrule {

// `signatures[i]` is that of the kernel of launch i; `weight_bytes` the sizes of the weights that operands index.
// Throws std::invalid_argument that names the launch, its kernel, the operand and what is wrong with it.
void validate(const Plan& plan, std::span<const OpSignature* const> signatures, std::span<const uint64_t> weight_bytes,
              uint64_t cache_bytes);

// Throws std::invalid_argument when a step exceeds the plan's dims, or has another number of inputs or outputs.
void check_step(const Plan& plan, const Dims& dims, size_t n_inputs, size_t n_outputs);

}  // namespace ferrule
