// Collects the kernels of every file in this directory for one ISA.
#include "registry.h"

namespace ferrule::cpu::FERRULE_ISA {

std::span<const Kernel> activation_kernels();
std::span<const Kernel> add_kernels();
std::span<const Kernel> attention_kernels();
std::span<const Kernel> embedding_kernels();
std::span<const Kernel> gated_activation_kernels();
std::span<const Kernel> kv_append_kernels();
std::span<const Kernel> matmul_kernels();
std::span<const Kernel> matmul_float_kernels();
std::span<const Kernel> matvec_kernels();
std::span<const Kernel> qkv_prepare_kernels();
std::span<const Kernel> quantize_q8_kernels();
std::span<const Kernel> rms_norm_kernels();
std::span<const Kernel> rope_kernels();
std::span<const Kernel> rope_table_kernels();
std::span<const Kernel> scale_kernels();
std::span<const Kernel> softcap_kernels();
std::span<const Kernel> take_rows_kernels();

KernelTable kernels() {
    static const std::span<const Kernel> table[] = {
        activation_kernels(),
        add_kernels(),
        attention_kernels(),
        embedding_kernels(),
        gated_activation_kernels(),
        kv_append_kernels(),
        matmul_kernels(),
        matmul_float_kernels(),
        matvec_kernels(),
        qkv_prepare_kernels(),
        quantize_q8_kernels(),
        rms_norm_kernels(),
        rope_kernels(),
        rope_table_kernels(),
        scale_kernels(),
        softcap_kernels(),
        take_rows_kernels(),
    };
    return table;
}

}  // namespace ferrule::cpu::FERRULE_ISA
