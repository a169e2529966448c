// matvec_<format> (params/matmul.h): quantised weights times few rows of quantised activations. A work item is a
// vector of weight rows.
#include "kernels_by_format.h"
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

constexpr auto table = kernels_by_format<"matvec", formats::kFloatFormats>([]<size_t format>(const char* name) {
    return Kernel{name, &matmul::signature, items, nullptr, run<QuantizedFormat(format)>};
});

}  // namespace

std::span<const Kernel> matvec_kernels() {
    return table;
}

}  // namespace ferrule::cpu::FERRULE_ISA
