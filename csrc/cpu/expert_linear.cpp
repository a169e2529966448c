// expert_linear of quantised weights times quantised activations.
#include "expert_rows.h"
#include "matmul_products.h"
#include "matvec_products.h"

namespace ferrule::cpu::FERRULE_ISA {
namespace {

using namespace experts;

// Every slot may have chosen the same expert.
template <class Unpack>
size_t panel_bytes(const KernelArgs& args) {
    const ExpertLinear& params = args.as<ExpertLinear>();
    return matmul_panel::scratch_bytes<Unpack>(params.k, args.rows * params.slots);
}

template <class Unpack>
size_t scratch_bytes(const KernelArgs& args) {
    return panel_bytes<Unpack>(args) + SortedSlots::scratch_bytes(args);
}

template <class Unpack>
void run(const KernelArgs& args, uint32_t begin, uint32_t end, std::byte* scratch) {
    const auto [k, n, experts, slots, x_slots, weighted, planes] = args.as<ExpertLinear>();
    std::byte* sorting = scratch + panel_bytes<Unpack>(args);
    const auto multiply = [&, k = k, n = n, planes = planes](const uint8_t* weight, const ExpertRows& rows,
                                                             uint32_t j_begin, uint32_t j_end) {
        if (rows.count <= matvec::kMaxRows) {  // the same sums, without unpacking a panel
            matvec::products<Unpack>(weight, n, k, planes, rows, j_begin, j_end);
        } else {
            matmul_panel::products<Unpack>(weight, n, k, planes, rows, j_begin, j_end, scratch);
        }
    };
    for_each_expert(args, quantized_row::row_bytes(k, planes), begin, end, sorting, multiply);
}

template <class Unpack>
constexpr Kernel kernel(const char* name) {
    return {name, &expert_linear::signature, items, scratch_bytes<Unpack>, run<Unpack>};
}

constexpr Kernel table[] = {
    kernel<UnpackQ4_0>("expert_linear_q4_0"),       kernel<UnpackQ4_1>("expert_linear_q4_1"),
    kernel<UnpackQ5_0>("expert_linear_q5_0"),       kernel<UnpackQ5_1>("expert_linear_q5_1"),
    kernel<UnpackQ8_0>("expert_linear_q8_0"),       kernel<UnpackQ2_K>("expert_linear_q2_k"),
    kernel<UnpackQ3_K>("expert_linear_q3_k"),       kernel<UnpackQ4_K>("expert_linear_q4_k"),
    kernel<UnpackQ5_K>("expert_linear_q5_k"),       kernel<UnpackQ6_K>("expert_linear_q6_k"),
    kernel<UnpackIQ1_S>("expert_linear_iq1_s"),     kernel<UnpackIQ1_M>("expert_linear_iq1_m"),
    kernel<UnpackIQ2_XXS>("expert_linear_iq2_xxs"), kernel<UnpackIQ2_XS>("expert_linear_iq2_xs"),
    kernel<UnpackIQ2_S>("expert_linear_iq2_s"),     kernel<UnpackIQ3_XXS>("expert_linear_iq3_xxs"),
    kernel<UnpackIQ3_S>("expert_linear_iq3_s"),     kernel<UnpackIQ4_NL>("expert_linear_iq4_nl"),
    kernel<UnpackIQ4_XS>("expert_linear_iq4_xs"),   kernel<UnpackTQ1_0>("expert_linear_tq1_0"),
    kernel<UnpackTQ2_0>("expert_linear_tq2_0"),     kernel<UnpackMXFP4>("expert_linear_mxfp4"),
    kernel<UnpackNVFP4>("expert_linear_nvfp4"),
};

}  // namespace

std::span<const Kernel> expert_linear_kernels() {
    return table;
}

}  // namespace ferrule::cpu::FERRULE_ISA
