// Stackful fibers: one per GPU thread, switched by hand when a lane waits for others.
#pragma once
#include <cstddef>
#include <vector>

namespace metal_host {

inline constexpr std::size_t kStackBytes = 128 << 10;

// Saves the running fiber's stack pointer in `*save` and continues the fiber whose stack pointer is `load`.
extern "C" void metal_host_switch(void** save, void* load);

// Stacks with a guard page below each; never returned to the system, since the next threadgroup needs as many.
class StackPool {
  public:
    char* take();
    void give(char* stack) { free_.push_back(stack); }

  private:
    std::vector<char*> free_;
};

// The stack pointer from which a switch enters `entry`, which must never return.
void* first_stack_pointer(char* stack, void (*entry)());

}  // namespace metal_host
