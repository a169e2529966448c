// Collects the kernels of every file in this directory for one ISA.
#include "registry.h"

namespace ferrule::cpu::FERRULE_ISA {

std::span<const Kernel> add_kernels();
std::span<const Kernel> rms_norm_kernels();
std::span<const Kernel> scale_kernels();
std::span<const Kernel> softcap_kernels();
std::span<const Kernel> take_rows_kernels();

KernelTable kernels() {
    static const std::span<const Kernel> table[] = {
        add_kernels(), rms_norm_kernels(), scale_kernels(), softcap_kernels(), take_rows_kernels(),
    };
    return table;
}

}  // namespace ferrule::cpu::FERRULE_ISA
