// expert_linear of quantised weights times quantised activations.
#include "expert_rows.h"
#include "kernels_by_format.h"
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
            multiply_many_rows(format, product, j_begin, j_end, scratch, false);
        }
    };
    for_each_expert(args, quantized_row::row_bytes(params.k, params.planes), begin, end, sorting, multiply);
}

constexpr auto table = kernels_by_format<"expert_linear", formats::kFloatFormats>([]<size_t format>(const char* name) {
    return Kernel{name, &expert_linear::signature, items, scratch_bytes<QuantizedFormat(format)>,
                  run<QuantizedFormat(format)>};
});

}  // namespace

std::span<const Kernel> expert_linear_kernels() {
    return table;
}

}  // namespace ferrule::cpu::FERRULE_ISA
