// matmul_<format> (params/matmul.h): quantised weights times many rows of quantised activations. A work item is a panel
// of 16 weight rows.
#include "matmul_products.h"

namespace ferrule::cpu::FERRULE_ISA {
namespace {

using matmul_panel::kPanelRows;

uint32_t items(const KernelArgs& args) {
    return (args.as<Matmul>().n + kPanelRows - 1) / kPanelRows;
}

template <class Unpack>
size_t scratch_bytes(const KernelArgs& args) {
    return matmul_panel::scratch_bytes<Unpack>(args.as<Matmul>().k, args.rows);
}

template <class Unpack>
void run(const KernelArgs& args, uint32_t begin, uint32_t end, std::byte* scratch) {
    const auto [k, n, scale, planes] = args.as<Matmul>();
    const MatmulRows rows(args, quantized_row::row_bytes(k, planes));
    matmul_panel::products<Unpack>(args.operand<const uint8_t>(matmul::weight), n, k, planes, rows, begin * kPanelRows,
                                   min_u32(end * kPanelRows, n), scratch);
}

template <class Unpack>
constexpr Kernel kernel(const char* name) {
    return {name, &matmul::signature, items, scratch_bytes<Unpack>, run<Unpack>};
}

constexpr Kernel table[] = {
    kernel<UnpackQ4_0>("matmul_q4_0"),       kernel<UnpackQ4_1>("matmul_q4_1"),
    kernel<UnpackQ5_0>("matmul_q5_0"),       kernel<UnpackQ5_1>("matmul_q5_1"),
    kernel<UnpackQ8_0>("matmul_q8_0"),       kernel<UnpackQ2_K>("matmul_q2_k"),
    kernel<UnpackQ3_K>("matmul_q3_k"),       kernel<UnpackQ4_K>("matmul_q4_k"),
    kernel<UnpackQ5_K>("matmul_q5_k"),       kernel<UnpackQ6_K>("matmul_q6_k"),
    kernel<UnpackIQ1_S>("matmul_iq1_s"),     kernel<UnpackIQ1_M>("matmul_iq1_m"),
    kernel<UnpackIQ2_XXS>("matmul_iq2_xxs"), kernel<UnpackIQ2_XS>("matmul_iq2_xs"),
    kernel<UnpackIQ2_S>("matmul_iq2_s"),     kernel<UnpackIQ3_XXS>("matmul_iq3_xxs"),
    kernel<UnpackIQ3_S>("matmul_iq3_s"),     kernel<UnpackIQ4_NL>("matmul_iq4_nl"),
    kernel<UnpackIQ4_XS>("matmul_iq4_xs"),   kernel<UnpackTQ1_0>("matmul_tq1_0"),
    kernel<UnpackTQ2_0>("matmul_tq2_0"),     kernel<UnpackMXFP4>("matmul_mxfp4"),
    kernel<UnpackNVFP4>("matmul_nvfp4"),
};

}  // namespace

std::span<const Kernel> matmul_kernels() {
    return table;
}

}  // namespace ferrule::cpu::FERRULE_ISA
