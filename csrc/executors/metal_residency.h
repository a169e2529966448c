// Buffers that stay resident on a GPU.
#pragma once
#include "metal_gpu.h"

namespace ferrule::metal {

// Keeps buffers resident while it lives, where the system can (macOS 15).
class Residency {
  public:
    // Throws DeviceFailure.
    Residency(id<MTLDevice> device, id<MTLCommandQueue> queue, std::span<const id<MTLBuffer>> buffers);
    ~Residency();
    Residency(const Residency&) = delete;
    Residency& operator=(const Residency&) = delete;

  private:
    [[maybe_unused]] id<MTLCommandQueue> queue_;
    Retained<id> set_;
};

}  // namespace ferrule::metal
