// Runs plans on an Apple GPU through Metal.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "../plan/plan.h"
#include "program.h"

namespace ferrule::metal {

// A step that was started. Its end is waited for when it is destroyed.
class Step {
  public:
    virtual ~Step() = default;

    // Waits for the step's end and hands its results over. Throws DeviceFailure when the device failed.
    virtual void finish(Outputs outputs) = 0;
};

class Program : public ferrule::Program {
  public:
    // Begins a step and returns while it runs; steps run one after another, in the order of their starts.
    // `output_bytes` are the sizes of its results. An empty input is the first result of `previous`, a step of the same
    // executor. The program must outlive the step. Throws as run does.
    virtual std::unique_ptr<Step> start(const Dims& dims, Inputs inputs, std::span<const uint64_t> output_bytes,
                                        const Step* previous) = 0;
};

// A GPU, the library of kernels, and the mapped files whose weights it reads in place.
class Executor {
  public:
    virtual ~Executor() = default;

    // The newest GPU family that the device belongs to: "apple7", "apple8", ...
    virtual std::string family() const = 0;

    // The weights must outlive the executor, which copies once what it cannot read in place; the executor and the cache
    // must outlive the program. `cache` begins at a page of its own. Throws
    // std::invalid_argument, see validate.h, and DeviceFailure when the device cannot run the plan.
    virtual std::unique_ptr<Program> bind(Plan plan, std::span<const std::span<const std::byte>> weights,
                                          std::span<std::byte> cache) = 0;
};

// `library`: path of the compiled kernels; `files` must outlive the executor. Throws DeviceFailure when this build has
// no Metal, or this machine no device that can be used.
std::unique_ptr<Executor> make_executor(const std::string& library, std::span<const std::span<const std::byte>> files);

// What Metal is in this build.
enum class Backend { none, gpu, stand_in };
Backend backend();

}  // namespace ferrule::metal
