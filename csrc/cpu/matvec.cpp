// matvec_<format> (params/matmul.h): quantised weights times few rows of quantised activations. A work item is 16
// weight rows.
#include "matvec_products.h"

namespace ferrule::cpu::FERRULE_ISA {
namespace {

constexpr uint32_t kItemRows = 16;

uint32_t items(const KernelArgs& args) {
    return (args.as<Matmul>().n + kItemRows - 1) / kItemRows;
}

template <class Unpack>
void run(const KernelArgs& args, uint32_t begin, uint32_t end, std::byte*) {
    const auto [k, n, scale, planes] = args.as<Matmul>();
    matvec::products<Unpack>(args.operand<const uint8_t>(matmul::weight), n, k, planes,
                             MatmulRows(args, quantized_row::row_bytes(k, planes)), begin * kItemRows,
                             min_u32(end * kItemRows, n));
}

template <class Unpack>
constexpr Kernel kernel(const char* name) {
    return {name, &matmul::signature, items, nullptr, run<Unpack>};
}

constexpr Kernel table[] = {
    kernel<UnpackQ4_0>("matvec_q4_0"),       kernel<UnpackQ4_1>("matvec_q4_1"),
    kernel<UnpackQ5_0>("matvec_q5_0"),       kernel<UnpackQ5_1>("matvec_q5_1"),
    kernel<UnpackQ8_0>("matvec_q8_0"),       kernel<UnpackQ2_K>("matvec_q2_k"),
    kernel<UnpackQ3_K>("matvec_q3_k"),       kernel<UnpackQ4_K>("matvec_q4_k"),
    kernel<UnpackQ5_K>("matvec_q5_k"),       kernel<UnpackQ6_K>("matvec_q6_k"),
    kernel<UnpackIQ1_S>("matvec_iq1_s"),     kernel<UnpackIQ1_M>("matvec_iq1_m"),
    kernel<UnpackIQ2_XXS>("matvec_iq2_xxs"), kernel<UnpackIQ2_XS>("matvec_iq2_xs"),
    kernel<UnpackIQ2_S>("matvec_iq2_s"),     kernel<UnpackIQ3_XXS>("matvec_iq3_xxs"),
    kernel<UnpackIQ3_S>("matvec_iq3_s"),     kernel<UnpackIQ4_NL>("matvec_iq4_nl"),
    kernel<UnpackIQ4_XS>("matvec_iq4_xs"),   kernel<UnpackTQ1_0>("matvec_tq1_0"),
    kernel<UnpackTQ2_0>("matvec_tq2_0"),     kernel<UnpackMXFP4>("matvec_mxfp4"),
    kernel<UnpackNVFP4>("matvec_nvfp4"),
};

}  // namespace

std::span<const Kernel> matvec_kernels() {
    return table;
}

}  // namespace ferrule::cpu::FERRULE_ISA
