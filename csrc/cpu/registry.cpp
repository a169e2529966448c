// Collects the kernels of every file in this directory for one ISA.
#include "registry.h"

namespace ferrule::cpu::FERRULE_ISA {

std::span<const Kernel> activation_kernels();
std::span<const Kernel> add_kernels();
std::span<const Kernel> attention_kernels();
std::span<const Kernel> causal_conv1d_kernels();
std::span<const Kernel> clamp_kernels();
std::span<const Kernel> clamped_swiglu_kernels();
std::span<const Kernel> embedding_kernels();
std::span<const Kernel> expert_linear_kernels();
std::span<const Kernel> expert_linear_float_kernels();
std::span<const Kernel> expert_sum_kernels();
std::span<const Kernel> gated_activation_kernels();
std::span<const Kernel> gated_delta_rule_kernels();
std::span<const Kernel> keep_outliers_kernels();
std::span<const Kernel> kv_append_kernels();
std::span<const Kernel> latent_attention_kernels();
std::span<const Kernel> layer_norm_kernels();
std::span<const Kernel> limit_kernels();
std::span<const Kernel> matmul_kernels();
std::span<const Kernel> matmul_float_kernels();
std::span<const Kernel> matvec_kernels();
std::span<const Kernel> mix_streams_kernels();
std::span<const Kernel> multiply_kernels();
std::span<const Kernel> qkv_prepare_kernels();
std::span<const Kernel> quantize_kernels();
std::span<const Kernel> rms_norm_kernels();
std::span<const Kernel> root_mean_square_kernels();
std::span<const Kernel> rope_kernels();
std::span<const Kernel> rope_table_kernels();
std::span<const Kernel> rounded_products_kernels();
std::span<const Kernel> route_kernels();
std::span<const Kernel> scale_kernels();
std::span<const Kernel> scale_by_position_kernels();
std::span<const Kernel> select_positions_kernels();
std::span<const Kernel> softcap_kernels();
std::span<const Kernel> ssm_scan_kernels();
std::span<const Kernel> take_columns_kernels();
std::span<const Kernel> take_rows_kernels();
std::span<const Kernel> xielu_kernels();

KernelTable kernels() {
    static const std::span<const Kernel> table[] = {
        activation_kernels(),
        add_kernels(),
        attention_kernels(),
        causal_conv1d_kernels(),
        clamp_kernels(),
        clamped_swiglu_kernels(),
        embedding_kernels(),
        expert_linear_kernels(),
        expert_linear_float_kernels(),
        expert_sum_kernels(),
        gated_activation_kernels(),
        gated_delta_rule_kernels(),
        keep_outliers_kernels(),
        kv_append_kernels(),
        latent_attention_kernels(),
        layer_norm_kernels(),
        limit_kernels(),
        matmul_kernels(),
        matmul_float_kernels(),
        matvec_kernels(),
        mix_streams_kernels(),
        multiply_kernels(),
        qkv_prepare_kernels(),
        quantize_kernels(),
        rms_norm_kernels(),
        root_mean_square_kernels(),
        rope_kernels(),
        rope_table_kernels(),
        rounded_products_kernels(),
        route_kernels(),
        scale_kernels(),
        scale_by_position_kernels(),
        select_positions_kernels(),
        softcap_kernels(),
        ssm_scan_kernels(),
        take_columns_kernels(),
        take_rows_kernels(),
        xielu_kernels(),
    };
    return table;
}

}  // namespace ferrule::cpu::FERRULE_ISA
