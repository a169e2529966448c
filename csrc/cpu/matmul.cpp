// matmul_<format> (params/matmul.h): quantised weights times many rows of quantised activations. A work item is a panel
// of weight rows.
#include "kernels_by_format.h"
#include "quantize_row.h"
#include "quantized_products.h"

namespace ferrule::cpu::FERRULE_ISA {
namespace {

uint32_t items(const KernelArgs& args) {
    return (args.as<Matmul>().n + kPanelRows - 1) / kPanelRows;
}

template <QuantizedFormat format>
size_t scratch_bytes(const KernelArgs& args) {
    return kZeroedScratch + many_rows_scratch(format, args.as<Matmul>().k, args.rows);
}

template <QuantizedFormat format>
void run(const KernelArgs& args, uint32_t begin, uint32_t end, std::byte* scratch) {
    const auto [k, n, scale, planes] = args.as<Matmul>();
    const MatmulRows rows(args, quantized_row::row_bytes(k, planes));
    uint32_t& ranges = *reinterpret_cast<uint32_t*>(scratch);  // that this thread has had
    multiply_many_rows(format, {args.operand<const uint8_t>(matmul::weight), n, k, planes, rows}, begin * kPanelRows,
                       min_u32(end * kPanelRows, n), scratch + kZeroedScratch, ranges++ > 0);
}

constexpr auto table = kernels_by_format<"matmul", formats::kFloatFormats>([]<size_t format>(const char* name) {
    return Kernel{name, &matmul::signature, items, scratch_bytes<QuantizedFormat(format)>,
                  run<QuantizedFormat(format)>};
});

}  // namespace

std::span<const Kernel> matmul_kernels() {
    return table;
}

}  // namespace ferrule::cpu::FERRULE_ISA
