// expert_linear of quantised weights times quantised activations.
#include "expert_rows.h"
#include "quantize_row.h"
#include "quantized_products.h"

namespace ferrule::cpu::FERRULE_ISA {
namespace {

using namespace experts;

// Every slot may have chosen the same expert.
template <QuantizedFormat format>
size_t product_scratch(const KernelArgs& args) {
    const ExpertLinear& params = args.as<ExpertLinear>();
    return many_rows_scratch(format, params.k, args.rows * params.slots);
}

template <QuantizedFormat format>
size_t scratch_bytes(const KernelArgs& args) {
    return product_scratch<format>(args) + SortedSlots::scratch_bytes(args);
}

template <QuantizedFormat format>
void run(const KernelArgs& args, uint32_t begin, uint32_t end, std::byte* scratch) {
    const ExpertLinear& params = args.as<ExpertLinear>();
    std::byte* sorting = scratch + product_scratch<format>(args);
    const auto multiply = [&](const uint8_t* weight, const ExpertRows& rows, uint32_t j_begin, uint32_t j_end) {
        const QuantizedProduct product{weight, params.n, params.k, params.planes, rows};
        if (rows.count <= kFewRows) {  // the same sums, without unpacking a panel
            multiply_few_rows(format, product, j_begin, j_end);
        } else {
            multiply_many_rows(format, product, j_begin, j_end, scratch);
        }
    };
    for_each_expert(args, quantized_row::row_bytes(params.k, params.planes), begin, end, sorting, multiply);
}

template <QuantizedFormat format>
constexpr Kernel kernel(const char* name) {
    return {name, &expert_linear::signature, items, scratch_bytes<format>, run<format>};
}

constexpr Kernel table[] = {
    kernel<QuantizedFormat::q4_0>("expert_linear_q4_0"),
    kernel<QuantizedFormat::q4_1>("expert_linear_q4_1"),
    kernel<QuantizedFormat::q5_0>("expert_linear_q5_0"),
    kernel<QuantizedFormat::q5_1>("expert_linear_q5_1"),
    kernel<QuantizedFormat::q8_0>("expert_linear_q8_0"),
    kernel<QuantizedFormat::q2_k>("expert_linear_q2_k"),
    kernel<QuantizedFormat::q3_k>("expert_linear_q3_k"),
    kernel<QuantizedFormat::q4_k>("expert_linear_q4_k"),
    kernel<QuantizedFormat::q5_k>("expert_linear_q5_k"),
    kernel<QuantizedFormat::q6_k>("expert_linear_q6_k"),
    kernel<QuantizedFormat::iq1_s>("expert_linear_iq1_s"),
    kernel<QuantizedFormat::iq1_m>("expert_linear_iq1_m"),
    kernel<QuantizedFormat::iq2_xxs>("expert_linear_iq2_xxs"),
    kernel<QuantizedFormat::iq2_xs>("expert_linear_iq2_xs"),
    kernel<QuantizedFormat::iq2_s>("expert_linear_iq2_s"),
    kernel<QuantizedFormat::iq3_xxs>("expert_linear_iq3_xxs"),
    kernel<QuantizedFormat::iq3_s>("expert_linear_iq3_s"),
    kernel<QuantizedFormat::iq4_nl>("expert_linear_iq4_nl"),
    kernel<QuantizedFormat::iq4_xs>("expert_linear_iq4_xs"),
    kernel<QuantizedFormat::tq1_0>("expert_linear_tq1_0"),
    kernel<QuantizedFormat::tq2_0>("expert_linear_tq2_0"),
    kernel<QuantizedFormat::mxfp4>("expert_linear_mxfp4"),
    kernel<QuantizedFormat::nvfp4>("expert_linear_nvfp4"),
};

}  // namespace

std::span<const Kernel> expert_linear_kernels() {
    return table;
}

}  // namespace ferrule::cpu::FERRULE_ISA
