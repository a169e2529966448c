// Loops that are gone before a compiler looks for registers.
#pragma once
#include <cstdint>

namespace ferrule::cpu::FERRULE_ISA {

// f<0>(), f<1>() ... f<n - 1>(): accumulators need constant indices early, or the compiler leaves them in memory.
template <uint32_t n, uint32_t i = 0, class F>
[[gnu::always_inline]] inline void unrolled(const F& f) {
    if constexpr (i < n) {
        f.template operator()<i>();
        unrolled<n, i + 1>(f);
    }
}

}  // namespace ferrule::cpu::FERRULE_ISA
