// A step on a GPU: its command buffers, and the memory of its inputs and outputs.
#pragma once
#include <algorithm>
#include <memory>
#include <vector>

#include "metal_gpu.h"

namespace ferrule::metal {

// A buffer that grows with what it has to hold.
struct Staging {
    Retained<id<MTLBuffer>> buffer;

    std::byte* reserve(id<MTLDevice> device, uint64_t bytes) {
        if (!buffer || buffer.get().length < bytes) buffer = allocate(device, std::max<uint64_t>(bytes, 1), "a step");
        return static_cast<std::byte*>(buffer.get().contents);
    }
};

// A step's inputs and outputs.
struct StepMemory {
    StepMemory(size_t n_inputs, size_t n_outputs) : inputs(n_inputs), outputs(n_outputs) {}
    std::vector<Staging> inputs, outputs;
};

struct GpuStep final : Step {
    std::shared_ptr<StepMemory> memory;
    std::shared_ptr<StepMemory> previous;  // whose first output is the input `fed_input`, if any
    size_t fed_input = 0;
    std::vector<Retained<id<MTLCommandBuffer>>> command_buffers;

    ~GpuStep() override { wait(); }
    void wait() const {
        if (!command_buffers.empty()) [command_buffers.back().get() waitUntilCompleted];
    }
    void finish(Outputs results) override { finish_timed(results); }
    // Returns each command buffer's nanoseconds.
    std::vector<uint64_t> finish_timed(Outputs results) const;
};

}  // namespace ferrule::metal
