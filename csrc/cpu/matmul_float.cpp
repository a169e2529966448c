// matvec_ and matmul_ of float weights (params/matmul.h): F32, F16, BF16 times f32 activations. Both names are the same
// kernel. A tile of weight rows x activation rows keeps one vector accumulator per output; lanes run along k.
#include "matmul_common.h"

namespace ferrule::cpu::FERRULE_ISA {
namespace {

using namespace simd;

constexpr uint32_t kItemRows = 16;  // weight rows of a work item

struct F32 {
    using Value = float;
    static f32x16 load16(const float* p) { return load(p); }
    static f32x16 load_some(const float* p, size_t n) { return load_partial(p, n); }
};
struct F16 {
    using Value = uint16_t;
    static f32x16 load16(const uint16_t* p) { return load_f16(p); }
    static f32x16 load_some(const uint16_t* p, size_t n) { return load_f16_partial(p, n); }
};
struct BF16 {
    using Value = uint16_t;
    static f32x16 load16(const uint16_t* p) { return load_bf16(p); }
    static f32x16 load_some(const uint16_t* p, size_t n) { return load_bf16_partial(p, n); }
};

template <class Format>
struct Operands {
    const uint8_t* weight;  // not aligned to the values, perhaps
    const float* x;
    Epilogue epilogue;
    uint32_t k;
    uint32_t n;
    uint32_t rows;

    explicit Operands(const KernelArgs& args)
        : weight(args.operand<const uint8_t>(matmul::weight)),
          x(args.operand<const float>(matmul::x)),
          epilogue(args),
          k(args.as<Matmul>().k),
          n(args.as<Matmul>().n),
          rows(args.rows) {}
};

// W weight rows from j times T activation rows from r; those beyond the last repeat it and are not written.
template <class Format, int W, int T>
void tile(const Operands<Format>& o, uint32_t j, uint32_t r) {
    using Value = typename Format::Value;
    const Value* w[W];
    const float* x[T];
    for (uint32_t i = 0; i < W; ++i) {
        w[i] = reinterpret_cast<const Value*>(o.weight + size_t{min_u32(j + i, o.n - 1)} * o.k * sizeof(Value));
    }
    for (uint32_t t = 0; t < T; ++t) x[t] = o.x + size_t{min_u32(r + t, o.rows - 1)} * o.k;

    // The next weight rows, or later ones, at least 4 KiB ahead.
    size_t ahead = size_t{W} * o.k;
    while (ahead < 4096 / sizeof(Value)) ahead *= 2;

    f32x16 sum[W][T];
    for (int i = 0; i < W; ++i)
        for (int t = 0; t < T; ++t) sum[i][t] = zero_f32();
    const uint32_t whole = o.k / 16 * 16;
    for (uint32_t p = 0; p < whole; p += 16) {
        if (p % (64 / sizeof(Value)) == 0) {
            for (int i = 0; i < W; ++i) prefetch_l2(w[i] + p + ahead);
        }
        f32x16 weights[W];
        for (int i = 0; i < W; ++i) weights[i] = Format::load16(w[i] + p);
        for (int t = 0; t < T; ++t) {
            const f32x16 values = load(x[t] + p);
            for (int i = 0; i < W; ++i) sum[i][t] = fma(values, weights[i], sum[i][t]);
        }
    }
    if (whole < o.k) {
        for (int i = 0; i < W; ++i) {
            const f32x16 weights = Format::load_some(w[i] + whole, o.k - whole);
            for (int t = 0; t < T; ++t) sum[i][t] = fma(load_partial(x[t] + whole, o.k - whole), weights, sum[i][t]);
        }
    }
    for (uint32_t t = 0; t < min_u32(T, o.rows - r); ++t)
        for (uint32_t i = 0; i < min_u32(W, o.n - j); ++i) o.epilogue.finish(r + t, j + i, reduce_add(sum[i][t]));
}

uint32_t items(const KernelArgs& args) {
    return (args.as<Matmul>().n + kItemRows - 1) / kItemRows;
}

// Activation rows in tiles of T while at least `enough` of them are left; returns the first row not done.
template <class Format, int W, int T>
uint32_t tiles(const Operands<Format>& o, uint32_t j_begin, uint32_t j_end, uint32_t r, uint32_t enough) {
    for (; r < o.rows && o.rows - r >= enough; r += T)
        for (uint32_t j = j_begin; j < j_end; j += W) tile<Format, W, T>(o, j, r);
    return r;
}

template <class Format>
void run(const KernelArgs& args, uint32_t begin, uint32_t end, std::byte*) {
    const Operands<Format> operands(args);
    for (uint32_t item = begin; item < end; ++item) {
        const uint32_t j = item * kItemRows, j_end = min_u32(j + kItemRows, operands.n);
        uint32_t r = 0;
        r = tiles<Format, kFloatTileWeights, kFloatTileRows>(operands, j, j_end, r, kFloatTileRows);
        r = tiles<Format, kFloatTileWeights, 2>(operands, j, j_end, r, 2);
        tiles<Format, 2 * kFloatTileWeights, 1>(operands, j, j_end, r, 1);
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
