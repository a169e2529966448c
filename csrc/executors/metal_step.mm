#include "metal_step.h"

#include <cstring>

#include "device_failure.h"

namespace ferrule::metal {

std::vector<uint64_t> GpuStep::finish_timed(Outputs results) const {
    wait();
    std::vector<uint64_t> nanoseconds;
    for (const auto& command_buffer : command_buffers) {
        if (command_buffer.get().status != MTLCommandBufferStatusCompleted) {
            throw DeviceFailure("the GPU failed: " + text(command_buffer.get().error));
        }
        const double seconds = command_buffer.get().GPUEndTime - command_buffer.get().GPUStartTime;
        nanoseconds.push_back(static_cast<uint64_t>(seconds * 1e9));
    }
    for (size_t i = 0; i < results.size(); ++i) {
        std::memcpy(results[i].data(), memory->outputs[i].buffer.get().contents, results[i].size());
    }
    return nanoseconds;
}

}  // namespace ferrule::metal
