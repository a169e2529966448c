// What a CPU kernel is to the executor: a name, a signature, and a function over a range of work items.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "../params/signature.h"
#include "../plan/dims.h"

namespace ferrule::cpu {

struct KernelArgs {
    void* const* operands;  // in the order of the signature; null where an optional operand is absent
    const void* params;
    uint32_t rows;  // the launch's row dimension
    Dims dims;

    // Always inlined: an out-of-line copy compiled for one ISA must never serve another.
    template <class T>
    [[gnu::always_inline]] T* operand(int i) const {
        return static_cast<T*>(operands[i]);
    }
    template <class P>
    [[gnu::always_inline]] const P& as() const {
        return *static_cast<const P*>(params);
    }
};

inline constexpr size_t kScratchAlignment = 64;
// A thread keeps its scratch from range to range of a launch; its first bytes are zero when the thread starts on one.
inline constexpr size_t kZeroedScratch = 64;

struct Kernel {
    const char* name;  // e.g. "matvec_q4_k"
    const OpSignature* signature;
    // Number of independent work items; any thread may run any range of them, in any order. Asked before the step
    // starts, and not at all for zero rows: may read params, rows, dims and step inputs, not what other launches write.
    uint32_t (*items)(const KernelArgs&);
    // Bytes of scratch that one thread needs (aligned to kScratchAlignment, at least kZeroedScratch); null means none.
    // Asked once, with the plan's largest dims and without operands.
    size_t (*scratch_bytes)(const KernelArgs&);
    void (*run)(const KernelArgs&, uint32_t begin, uint32_t end, std::byte* scratch);
};

}  // namespace ferrule::cpu
