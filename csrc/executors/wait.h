// How threads wait for each other: a short spin, because most waits within a step are shorter than a sleep and a
// wake-up; then sleep, so that an idle process uses no CPU and a thread whose core is taken does not burn another's.
#pragma once
#include <atomic>
#include <cstdint>

namespace ferrule {

inline void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("isb");  // about as long as x86's pause; `yield` is a no-op on most cores
#endif
}

inline constexpr int kSpins = 1000;  // 20 to 50 microseconds

// Returns the first value seen that is not `old`. Whoever changes the value must notify.
inline uint32_t wait_while(const std::atomic<uint32_t>& value, uint32_t old) {
    for (int i = 0; i < kSpins; ++i) {
        const uint32_t now = value.load(std::memory_order_acquire);
        if (now != old) return now;
        pause();
    }
    value.wait(old, std::memory_order_acquire);
    return value.load(std::memory_order_acquire);
}

// Whoever brings the counter to zero must notify; other changes need not.
inline void wait_until_zero(const std::atomic<uint32_t>& counter) {
    for (uint32_t now = counter.load(std::memory_order_acquire); now != 0; now = wait_while(counter, now)) {
    }
}

}  // namespace ferrule
