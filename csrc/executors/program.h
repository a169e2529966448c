// A plan bound to weights, a cache and an arena of its own, ready to run steps on some device.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "../plan/dims.h"

namespace ferrule {

using Inputs = std::span<const std::span<const std::byte>>;
using Outputs = std::span<const std::span<std::byte>>;

class Program {
  public:
    virtual ~Program() = default;

    // Runs one step; `inputs` and `outputs` are indexed by the plan's operands. Throws std::invalid_argument when the
    // dims exceed the plan's or the counts differ from it, DeviceFailure when the device fails.
    virtual void run(const Dims& dims, Inputs inputs, Outputs outputs) = 0;

    // Like run, one launch after another. Returns nanoseconds per launch.
    virtual std::vector<uint64_t> profile(const Dims& dims, Inputs inputs, Outputs outputs) = 0;
};

}  // namespace ferrule
