// expert_linear of float weights: F32, F16, BF16 times f32 activations.
#include "expert_rows.h"
#include "float_products.h"

namespace ferrule::cpu::FERRULE_ISA {
namespace {

using namespace experts;

template <class Format>
void run(const KernelArgs& args, uint32_t begin, uint32_t end, std::byte* scratch) {
    const ExpertLinear& params = args.as<ExpertLinear>();
    for_each_expert(args, params.k * sizeof(float), begin, end, scratch,
                    [&](const uint8_t* weight, const ExpertRows& rows, uint32_t j_begin, uint32_t j_end) {
                        float_products(FloatMatrix<Format>{weight, params.k, params.n}, rows, j_begin, j_end);
                    });
}

template <class Format>
constexpr Kernel kernel(const char* name) {
    return {name, &expert_linear::signature, items, SortedSlots::scratch_bytes, run<Format>};
}

constexpr Kernel table[] = {
    kernel<F32>("expert_linear_f32"),
    kernel<F16>("expert_linear_f16"),
    kernel<BF16>("expert_linear_bf16"),
};

}  // namespace

std::span<const Kernel> expert_linear_float_kernels() {
    return table;
}

}  // namespace ferrule::cpu::FERRULE_ISA
