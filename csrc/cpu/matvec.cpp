// matvec_<format> (params/matmul.h): quantised weights times few rows of quantised activations. A work item is a
// vector of weight rows.
#include "quantize_row.h"
#include "quantized_products.h"

namespace ferrule::cpu::FERRULE_ISA {
namespace {

uint32_t items(const KernelArgs& args) {
    return (args.as<Matmul>().n + kVectorRows - 1) / kVectorRows;
}

template <QuantizedFormat format>
void run(const KernelArgs& args, uint32_t begin, uint32_t end, std::byte*) {
    const auto [k, n, scale, planes] = args.as<Matmul>();
    const MatmulRows rows(args, quantized_row::row_bytes(k, planes));
    multiply_few_rows(format, {args.operand<const uint8_t>(matmul::weight), n, k, planes, rows}, begin * kVectorRows,
                      min_u32(end * kVectorRows, n));
}

template <QuantizedFormat format>
constexpr Kernel kernel(const char* name) {
    return {name, &matmul::signature, items, nullptr, run<format>};
}

constexpr Kernel table[] = {
    kernel<QuantizedFormat::q4_0>("matvec_q4_0"),       kernel<QuantizedFormat::q4_1>("matvec_q4_1"),
    kernel<QuantizedFormat::q5_0>("matvec_q5_0"),       kernel<QuantizedFormat::q5_1>("matvec_q5_1"),
    kernel<QuantizedFormat::q8_0>("matvec_q8_0"),       kernel<QuantizedFormat::q2_k>("matvec_q2_k"),
    kernel<QuantizedFormat::q3_k>("matvec_q3_k"),       kernel<QuantizedFormat::q4_k>("matvec_q4_k"),
    kernel<QuantizedFormat::q5_k>("matvec_q5_k"),       kernel<QuantizedFormat::q6_k>("matvec_q6_k"),
    kernel<QuantizedFormat::iq1_s>("matvec_iq1_s"),     kernel<QuantizedFormat::iq1_m>("matvec_iq1_m"),
    kernel<QuantizedFormat::iq2_xxs>("matvec_iq2_xxs"), kernel<QuantizedFormat::iq2_xs>("matvec_iq2_xs"),
    kernel<QuantizedFormat::iq2_s>("matvec_iq2_s"),     kernel<QuantizedFormat::iq3_xxs>("matvec_iq3_xxs"),
    kernel<QuantizedFormat::iq3_s>("matvec_iq3_s"),     kernel<QuantizedFormat::iq4_nl>("matvec_iq4_nl"),
    kernel<QuantizedFormat::iq4_xs>("matvec_iq4_xs"),   kernel<QuantizedFormat::tq1_0>("matvec_tq1_0"),
    kernel<QuantizedFormat::tq2_0>("matvec_tq2_0"),     kernel<QuantizedFormat::mxfp4>("matvec_mxfp4"),
    kernel<QuantizedFormat::nvfp4>("matvec_nvfp4"),
};

}  // namespace

std::span<const Kernel> matvec_kernels() {
    return table;
}

}  // namespace ferrule::cpu::FERRULE_ISA
