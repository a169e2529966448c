// Products of F16 and BF16 weights with rows of bfloat16, the weights rounded too (params/matmul.h): only where the
// instruction set multiplies bfloat16.
//
// Weights are taken in panels of 16 rows and turned, so that element r of a vector is a pair of inputs of row r: for
// few activation rows in registers, the work being bound by memory, for many once into scratch, [k / 2][16] pairs.
#include "expert_rows.h"
#include "quantize_row.h"

namespace ferrule::cpu::FERRULE_ISA {

#if defined(__AVX512BF16__)
namespace {

using namespace simd;

constexpr uint32_t kPanelRows = 16;  // weight rows of a panel
constexpr uint32_t kBlock = 32;      // inputs that are turned together
constexpr uint32_t kFewRows = 8;     // activation rows for which weights are turned in registers
constexpr uint32_t kTile = 8;        // activation rows: with more, their addresses no longer fit the registers
static_assert(experts::kBlockRows % kPanelRows == 0);

// 32 values of each of four rows: lane l of result[i] is values 8 i .. 8 i + 7 of row l.
struct F16 {
    static void load4(const uint8_t* const (&rows)[4], u8x64 (&result)[4]) {
        for (uint32_t i = 0; i < 4; ++i)
            result[i] = load4x8_f16(rows[0] + 16 * i, rows[1] + 16 * i, rows[2] + 16 * i, rows[3] + 16 * i);
    }
};
struct BF16 {
    static void load4(const uint8_t* const (&rows)[4], u8x64 (&result)[4]) {
        const u8x64 a = load(rows[0]), b = load(rows[1]), c = load(rows[2]), d = load(rows[3]);
        const u8x64 even[2] = {even_then_even(a, b), even_then_even(c, d)};
        const u8x64 odd[2] = {odd_then_odd(a, b), odd_then_odd(c, d)};
        result[0] = even_then_even(even[0], even[1]);
        result[1] = even_then_even(odd[0], odd[1]);
        result[2] = odd_then_odd(even[0], even[1]);
        result[3] = odd_then_odd(odd[0], odd[1]);
    }
};

struct Weights {
    const uint8_t* data;  // [n, k] of two bytes each, not aligned, perhaps
    uint32_t k;
    uint32_t n;

    const uint8_t* row(uint32_t j) const { return data + size_t{min_u32(j, n - 1)} * k * sizeof(uint16_t); }
};

// 16 weight rows from j on; those beyond the last repeat it.
template <class Format>
class Panel {
  public:
    Panel(const Weights& weights, uint32_t j) : k_(weights.k) {
        for (uint32_t r = 0; r < kPanelRows; ++r) rows_[r] = weights.row(j + r);
    }

    // use(pair, pairs) for every four pairs of inputs from `pair` on, zeros beyond the last input: element r of
    // pairs[i] is pair `pair` + i of row r.
    template <class Use>
    [[gnu::always_inline]] void for_each_four(Use use) const {
        const uint32_t whole = k_ / kBlock;
        for (uint32_t block = 0; block < whole; block += kRun)
            turn(rows_, block, min_u32(kRun, whole - block),
                 [&](uint32_t i, auto& pairs) { use(block * (kBlock / 2) + i, pairs); });
        if (whole * kBlock == k_) return;
        uint8_t tail[kPanelRows][kBlock * sizeof(uint16_t)] = {};
        const uint8_t* rows[kPanelRows];
        for (uint32_t r = 0; r < kPanelRows; ++r) {
            __builtin_memcpy(tail[r], rows_[r] + whole * sizeof tail[r], (k_ - whole * kBlock) * sizeof(uint16_t));
            rows[r] = tail[r];
        }
        turn(rows, 0, 1, [&](uint32_t i, auto& pairs) { use(whole * (kBlock / 2) + i, pairs); });
    }

  private:
    // Rows often are a multiple of 4 KiB apart and then share their places in the L1 cache, so that a row's lines are
    // best read at once: four rows at a time, kRun blocks of each.
    static constexpr uint32_t kRun = 8;

    template <class Use>
    [[gnu::always_inline]] static void turn(const uint8_t* const (&rows)[kPanelRows], size_t first, uint32_t blocks,
                                            Use use) {
        u8x64 four[kRun][4][4];  // [block][r][i], lane l: pairs 4 i .. 4 i + 3 of row 4 l + r
        for (uint32_t r = 0; r < 4; ++r)
            for (uint32_t b = 0; b < blocks; ++b) {
                const size_t at = (first + b) * kBlock * sizeof(uint16_t);
                Format::load4({rows[r] + at, rows[4 + r] + at, rows[8 + r] + at, rows[12 + r] + at}, four[b][r]);
            }
        for (uint32_t b = 0; b < blocks; ++b)
            for (uint32_t i = 0; i < 4; ++i) {
                transpose4x4(four[b][0][i], four[b][1][i], four[b][2][i], four[b][3][i]);
                const i32x16 pairs[4] = {as_i32(four[b][0][i]), as_i32(four[b][1][i]), as_i32(four[b][2][i]),
                                         as_i32(four[b][3][i])};
                use(b * (kBlock / 2) + 4 * i, pairs);
            }
    }

    const uint8_t* rows_[kPanelRows];
    uint32_t k_;
};

// T activation rows from `first` on; those beyond the last repeat it and are not written.
template <int T>
class Tile {
  public:
    Tile(const ActivationRows& rows, uint32_t first) : rows_(rows), first_(first) {
        for (uint32_t t = 0; t < T; ++t) {
            x_[t] = reinterpret_cast<const int32_t*>(rows.at(min_u32(first + t, rows.count - 1)));
            even_[t] = odd_[t] = zero_f32();
        }
    }

    // Pairs `pair` and `pair` + 1, the former even.
    [[gnu::always_inline]] void add(i32x16 even, i32x16 odd, size_t pair) {
        for (int t = 0; t < T; ++t) {
            even_[t] = dot2(even_[t], even, set1(x_[t][pair]));
            odd_[t] = dot2(odd_[t], odd, set1(x_[t][pair + 1]));
        }
    }
    void finish(uint32_t j, uint32_t n) const {
        for (uint32_t t = 0; t < min_u32(T, rows_.count - first_); ++t)
            rows_.finish(first_ + t, j, min_u32(n - j, kPanelRows), even_[t] + odd_[t]);
    }

  private:
    const ActivationRows& rows_;
    uint32_t first_;
    const int32_t* x_[T];
    f32x16 even_[T], odd_[T];
};

template <class Format, int T>
void few_rows(const Weights& weights, const ActivationRows& rows, uint32_t first, uint32_t j) {
    const Panel<Format> panel(weights, j);
    Tile<T> tile(rows, first);
    // Memory is asked for in its own order: the next panel or, if rows are short, a later one.
    const size_t panel_bytes = size_t{kPanelRows} * weights.k * sizeof(uint16_t);
    size_t distance = panel_bytes;
    while (distance < 8192) distance *= 2;
    const uint8_t* ahead = weights.row(j) + distance;
    panel.for_each_four([&](uint32_t pair, const i32x16(&pairs)[4]) __attribute__((always_inline)) {
        for (uint32_t line = 0; line < 4; ++line, ahead += 64) prefetch_l2(ahead);
        tile.add(pairs[0], pairs[1], pair);
        tile.add(pairs[2], pairs[3], pair + 2);
    });
    tile.finish(j, weights.n);
}

// Weight rows [j_begin, j_end), j_begin a multiple of kPanelRows, with all activation rows.
template <class Format>
void multiply_few_rows(const Weights& weights, const ActivationRows& rows, uint32_t j_begin, uint32_t j_end) {
    for (uint32_t first = 0; first < rows.count; first += kFewRows) {
        const uint32_t left = rows.count - first;
        const auto few = left == 1   ? few_rows<Format, 1>
                         : left == 2 ? few_rows<Format, 2>
                         : left <= 4 ? few_rows<Format, 4>
                                     : few_rows<Format, kFewRows>;
        for (uint32_t j = j_begin; j < j_end; j += kPanelRows) few(weights, rows, first, j);
    }
}

template <int T>
void panel_tile(const int32_t* panel, const Weights& weights, const ActivationRows& rows, uint32_t first, uint32_t j) {
    Tile<T> tile(rows, first);
    for (size_t i = 0; i < weights.k / 2 + weights.k % 2; i += 2)
        tile.add(load(panel + i * kPanelRows), load(panel + (i + 1) * kPanelRows), i);
    tile.finish(j, weights.n);
}

size_t panel_bytes(uint32_t k) {
    return size_t{kPanelRows} * quantized_row::padded(k) * sizeof(uint16_t);
}

template <class Format>
void multiply_many_rows(const Weights& weights, const ActivationRows& rows, uint32_t j_begin, uint32_t j_end,
                        std::byte* scratch) {
    int32_t* turned = reinterpret_cast<int32_t*>(scratch);
    for (uint32_t j = j_begin; j < j_end; j += kPanelRows) {
        const Panel<Format> panel(weights, j);
        panel.for_each_four([&](uint32_t pair, const i32x16(&pairs)[4]) {
            for (uint32_t i = 0; i < 4; ++i) store(turned + (pair + i) * kPanelRows, pairs[i]);
        });
        uint32_t first = 0;
        for (; first + kTile / 2 < rows.count; first += kTile) panel_tile<kTile>(turned, weights, rows, first, j);
        if (first < rows.count) panel_tile<kTile / 2>(turned, weights, rows, first, j);
    }
}

uint32_t matrix_items(const KernelArgs& args) {
    return (args.as<Matmul>().n + kPanelRows - 1) / kPanelRows;
}

size_t matmul_scratch(const KernelArgs& args) {
    return panel_bytes(args.as<Matmul>().k);
}

template <class Format, bool many>
void run(const KernelArgs& args, uint32_t begin, uint32_t end, std::byte* scratch) {
    const auto [k, n, scale, planes] = args.as<Matmul>();
    const Weights weights{args.operand<const uint8_t>(matmul::weight), k, n};
    const MatmulRows rows(args, quantized_row::row_bytes(k, planes));
    const uint32_t j_begin = begin * kPanelRows, j_end = min_u32(end * kPanelRows, n);
    if constexpr (many) {
        multiply_many_rows<Format>(weights, rows, j_begin, j_end, scratch);
    } else {
        multiply_few_rows<Format>(weights, rows, j_begin, j_end);
    }
}

size_t expert_scratch(const KernelArgs& args) {
    return panel_bytes(args.as<ExpertLinear>().k) + experts::SortedSlots::scratch_bytes(args);
}

template <class Format>
void run_experts(const KernelArgs& args, uint32_t begin, uint32_t end, std::byte* scratch) {
    const ExpertLinear& params = args.as<ExpertLinear>();
    const auto multiply = [&](const uint8_t* data, const ActivationRows& rows, uint32_t j_begin, uint32_t j_end) {
        const Weights weights{data, params.k, params.n};
        if (rows.count <= kFewRows) {
            multiply_few_rows<Format>(weights, rows, j_begin, j_end);
        } else {
            multiply_many_rows<Format>(weights, rows, j_begin, j_end, scratch);
        }
    };
    experts::for_each_expert(args, quantized_row::row_bytes(params.k, params.planes), begin, end,
                             scratch + panel_bytes(params.k), multiply);
}

constexpr Kernel table[] = {
    {"matvec_f16_rounded", &matmul::signature, matrix_items, nullptr, run<F16, false>},
    {"matvec_bf16_rounded", &matmul::signature, matrix_items, nullptr, run<BF16, false>},
    {"matmul_f16_rounded", &matmul::signature, matrix_items, matmul_scratch, run<F16, true>},
    {"matmul_bf16_rounded", &matmul::signature, matrix_items, matmul_scratch, run<BF16, true>},
    {"expert_linear_f16_rounded", &expert_linear::signature, experts::items, expert_scratch, run_experts<F16>},
    {"expert_linear_bf16_rounded", &expert_linear::signature, experts::items, expert_scratch, run_experts<BF16>},
};

}  // namespace
#endif

std::span<const Kernel> rounded_products_kernels() {
#if defined(__AVX512BF16__)
    return table;
#else
    return {};
#endif
}

}  // namespace ferrule::cpu::FERRULE_ISA
