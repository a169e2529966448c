#include "fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>

namespace metal_host {

namespace {

constexpr std::size_t kStacksPerMapping = 64;
constexpr std::size_t kPageBytes = 4096;

}  // namespace

// Callee-saved registers go onto the old stack and come from the new one.
#if defined(__x86_64__)
asm(R"(
.text
.globl metal_host_switch
.hidden metal_host_switch
.type metal_host_switch, @function
metal_host_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    retq
.size metal_host_switch, . - metal_host_switch
)");
#elif defined(__aarch64__)
asm(R"(
.text
.globl metal_host_switch
.hidden metal_host_switch
.type metal_host_switch, %function
metal_host_switch:
    sub sp, sp, #160
    stp x19, x20, [sp]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
.size metal_host_switch, . - metal_host_switch
)");
#endif

char* StackPool::take() {
    if (free_.empty()) {
        void* mapping = mmap(nullptr, kStackBytes * kStacksPerMapping, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (mapping == MAP_FAILED) throw std::bad_alloc();
        for (std::size_t i = kStacksPerMapping; i-- > 0;) {
            char* stack = static_cast<char*>(mapping) + i * kStackBytes;
            mprotect(stack, kPageBytes, PROT_NONE);
            free_.push_back(stack);
        }
    }
    char* stack = free_.back();
    free_.pop_back();
    return stack;
}

void* first_stack_pointer(char* stack, void (*entry)()) {
    // Stacks begin at different offsets, or the lanes' equal frames would all fall into one set of the cache.
    const std::size_t colour = (reinterpret_cast<uintptr_t>(stack) / kStackBytes % kStacksPerMapping) * 576;
    void** top = reinterpret_cast<void**>(stack + kStackBytes - 64 - colour);
#if defined(__x86_64__)
    *--top = nullptr;  // the return address of `entry`; keeps its frame aligned
    *--top = reinterpret_cast<void*>(entry);
    return top - 6;
#else
    top -= 20;
    top[11] = reinterpret_cast<void*>(entry);  // x30
    return top;
#endif
}

}  // namespace metal_host
