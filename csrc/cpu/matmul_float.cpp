// matvec_ and matmul_ of float weights (params/matmul.h): F32, F16, BF16 times f32 activations. Both names are the same
// kernel.
#include "float_products.h"

namespace ferrule::cpu::FERRULE_ISA {
namespace {

constexpr uint32_t kItemRows = 16;  // weight rows of a work item

uint32_t items(const KernelArgs& args) {
    return (args.as<Matmul>().n + kItemRows - 1) / kItemRows;
}

template <class Format>
void run(const KernelArgs& args, uint32_t begin, uint32_t end, std::byte*) {
    const auto [k, n, scale, planes] = args.as<Matmul>();
    const FloatMatrix<Format> matrix{args.operand<const uint8_t>(matmul::weight), k, n};
    const MatmulRows rows(args, k * sizeof(float));
    for (uint32_t item = begin; item < end; ++item) {
        float_products(matrix, rows, item * kItemRows, min_u32(item * kItemRows + kItemRows, n));
    }
}

template <class Format>
constexpr Kernel kernel(const char* name) {
    return {name, &matmul::signature, items, nullptr, run<Format>};
}

constexpr Kernel table[] = {
    kernel<F32>("matvec_f32"), kernel<F16>("matvec_f16"), kernel<BF16>("matvec_bf16"),
    kernel<F32>("matmul_f32"), kernel<F16>("matmul_f16"), kernel<BF16>("matmul_bf16"),
};

}  // namespace

std::span<const Kernel> matmul_float_kernels() {
    return table;
}

}  // namespace ferrule::cpu::FERRULE_ISA
