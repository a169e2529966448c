// Products of quantised weights and many rows of quantised activations, summed as in few_rows_products.cpp.
//
// A panel of weight rows, one or two vectors of them, is unpacked once into scratch with lanes = weight rows:
//   codes   [k / 4][rows][4] bytes        scales (minimums)   [k / 32][parts][rows] f32
// Tiles of activation rows then run over the panel with an accumulator for each vector of it; an activation's 4 codes
// are broadcast.
#include "four_rows.h"
#include "quantize_row.h"
#include "quantized_products.h"
#include "unpack/all.h"

namespace ferrule::cpu::FERRULE_ISA {
namespace {

using namespace simd;

struct Panel {
    uint8_t* codes;
    float* scales;
    float* minimums;
    int32_t* corrections;  // per tile [k / 32][parts][rows]: integer offset times sums of activation codes, negative
};

template <class Unpack>
size_t panel_values(uint32_t k) {  // scales or corrections of one row
    return size_t{quantized_row::padded(k)} / 32 * Unpack::kParts;
}

// `rows`: the most activation rows of a product.
template <class Unpack>
size_t scratch_bytes(uint32_t k, uint32_t rows) {
    const size_t corrected = Unpack::kOffset != 0 ? size_t{rows} + kTileRows : 0;
    const size_t per_value = kPanelRows * (Unpack::kMinimums ? 2 : 1) + corrected;
    return size_t{quantized_row::padded(k)} * kPanelRows + panel_values<Unpack>(k) * per_value * 4;
}

template <class Unpack>
Panel lay_out(std::byte* scratch, uint32_t k) {
    Panel panel;
    panel.codes = reinterpret_cast<uint8_t*>(scratch);
    panel.scales = reinterpret_cast<float*>(panel.codes + size_t{quantized_row::padded(k)} * kPanelRows);
    panel.minimums = panel.scales + panel_values<Unpack>(k) * kPanelRows;
    float* end = Unpack::kMinimums ? panel.minimums + panel_values<Unpack>(k) * kPanelRows : panel.minimums;
    panel.corrections = reinterpret_cast<int32_t*>(end);
    return panel;
}

// A chunk of a vector of weight rows: of every four of them, vectors with 4 adjacent codes of each in the lanes of the
// chunk's groups.
using ChunkCodes = u8x64[kVectorRows / 4][8];

// Lane i of the j-th is lane j of the i-th.
inline void transpose_lanes(u8x64& a, u8x64& b, u8x64& c, u8x64& d) {
    const u8x64 ab_even = even_then_even(a, b), ab_odd = odd_then_odd(a, b);
    const u8x64 cd_even = even_then_even(c, d), cd_odd = odd_then_odd(c, d);
    a = even_then_even(ab_even, cd_even), b = even_then_even(ab_odd, cd_odd);
    c = odd_then_odd(ab_even, cd_even), d = odd_then_odd(ab_odd, cd_odd);
}

inline void store_codes(uint8_t* to, const ChunkCodes& codes) {
    constexpr size_t quad_bytes = size_t{4} * kPanelRows, group_bytes = 8 * quad_bytes;
    for (size_t i = 0; i < 8; ++i) {
        u8x64 a = codes[0][i], b = codes[1][i], c = codes[2][i], d = codes[3][i];
        transpose_lanes(a, b, c, d);
        uint8_t* p = to + i * quad_bytes;
        store(p, a), store(p + group_bytes, b), store(p + 2 * group_bytes, c), store(p + 3 * group_bytes, d);
    }
}

// Chunk `chunk` of four rows, those from `quad` on of the panel.
template <class Unpack>
[[gnu::always_inline]] inline void unpack_chunk(const Panel& panel, const FourRows<Unpack>& rows, uint32_t step,
                                                uint32_t half, uint32_t quad, u8x64 (&codes)[8]) {
    constexpr size_t parts = Unpack::kParts;
    const size_t chunk = size_t{step} * FourRows<Unpack>::kHalves + half;
    const Codes of_row[4] = {rows.codes(step, half, 0), rows.codes(step, half, 1), rows.codes(step, half, 2),
                             rows.codes(step, half, 3)};
    for (int i = 0; i < 4; ++i) codes[i] = of_row[i].first, codes[i + 4] = of_row[i].second;
    transpose4x4(codes[0], codes[1], codes[2], codes[3]);
    transpose4x4(codes[4], codes[5], codes[6], codes[7]);
    const Scales scales = rows.scales(step, half);
    for (size_t part = 0; part < parts; ++part) {
        const size_t at = (chunk * 4 * parts + part) * kPanelRows + quad;
        store_lanes(panel.scales + at, parts * kPanelRows, scales.scale[part]);
        if constexpr (Unpack::kMinimums) store_lanes(panel.minimums + at, parts * kPanelRows, scales.minimum[part]);
    }
}

template <class Unpack>
void unpack_panel(const Panel& panel, const uint8_t* weight, uint32_t n, uint32_t k, uint32_t j) {
    constexpr uint32_t halves = FourRows<Unpack>::kHalves;
    for (uint32_t first = 0; first < kPanelRows; first += kVectorRows) {
        const FourRows<Unpack> rows[4] = {{weight, n, k, j + first, kVectorRows},
                                          {weight, n, k, j + first + 4, kVectorRows},
                                          {weight, n, k, j + first + 8, kVectorRows},
                                          {weight, n, k, j + first + 12, kVectorRows}};
        for (uint32_t step = 0; step < quantized_row::padded(k) / (halves * kChunk); ++step) {
            ChunkCodes codes[halves];
            for (uint32_t i = 0; i < 4; ++i) {
                rows[i].prefetch(step);
                unpack_chunk(panel, rows[i], step, 0, first + 4 * i, codes[0][i]);
                if constexpr (halves == 2) unpack_chunk(panel, rows[i], step, 1, first + 4 * i, codes[1][i]);
            }
            for (uint32_t half = 0; half < halves; ++half)
                store_codes(panel.codes + (step * halves + half) * size_t{kChunk} * kPanelRows + first * 4,
                            codes[half]);
        }
    }
}

template <class Unpack, int T>
void find_corrections(const uint8_t* const (&rows)[T], uint32_t k, uint32_t planes, int32_t* corrections) {
    for (uint32_t t = 0; t < T; ++t) {
        const int32_t* sum16 = quantized_row_at(rows[t], k, planes).sum16;
        for (uint32_t g = 0; g < quantized_row::padded(k) / 32; ++g) {
            const int32_t first = sum16[quantized_row::half_group(g, 0)],
                          second = sum16[quantized_row::half_group(g, 1)];
            if constexpr (Unpack::kParts == 1) {
                corrections[g * T + t] = -Unpack::kOffset * (first + second);
            } else {
                corrections[2 * g * T + t] = -Unpack::kOffset * first;
                corrections[(2 * g + 1) * T + t] = -Unpack::kOffset * second;
            }
        }
    }
}

// What is left of a format once its panel is unpacked: formats alike in this share the code of their tiles.
template <int parts, bool full, bool minimums, bool offset>
struct PanelKind {
    static constexpr int kParts = parts;
    static constexpr bool kFull = full, kMinimums = minimums, kOffset = offset;
};

template <class Unpack>
using KindOf = PanelKind<Unpack::kParts, Unpack::kFull, Unpack::kMinimums, Unpack::kOffset != 0>;

// f(row, vector) for T activation rows and the vectors of a panel.
template <int T, class F>
[[gnu::always_inline]] inline void for_each_sum(F f) {
    for (int t = 0; t < T; ++t)
        for (int v = 0; v < kPanelVectors; ++v) f(t, v);
}

// T activation rows times the panel. Everything of a row is found from its start, so that there is one pointer a row
// for the compiler to keep.
template <class Kind, int T, int planes>
void tile(const Panel& panel, const int32_t* corrections, const uint8_t* const (&rows)[T], uint32_t k,
          f32x16 (&total)[T][kPanelVectors]) {
    constexpr uint32_t parts = Kind::kParts, quads = 8 / parts;
    const uint32_t groups = (k + 31) / 32;
    const auto codes_at = [&](int t, size_t at) { return repeat4(reinterpret_cast<const int8_t*>(rows[t] + at)); };
    const auto float_at = [&](int t, size_t at) { return *reinterpret_cast<const float*>(rows[t] + at); };
    const auto vector_of = [](const float* values, size_t at, int v) {
        return load(values + at * kPanelRows + size_t(v) * kVectorRows);
    };
    for (uint32_t phase = 0; phase < 4; ++phase) {
        f32x16 sum[T][kPanelVectors];
        for_each_sum<T>([&](int t, int v) { sum[t][v] = zero_f32(); });
        for (uint32_t g = phase; g < groups; g += 4) {
            const size_t scale_at = quantized_row::scale_offset(k, planes) + 4 * size_t{g};
            for (uint32_t part = 0; part < parts; ++part) {
                const size_t at = size_t{g} * parts + part;
                i32x16 dot[T][kPanelVectors];
                const auto add_products = [&](size_t x_at) __attribute__((always_inline)) {
                    for (uint32_t q = 0; q < quads; ++q) {
                        u8x64 codes[kPanelVectors];
                        for (int v = 0; v < kPanelVectors; ++v)
                            codes[v] = load(panel.codes + (at * quads + q) * 4 * kPanelRows + 64 * v);
                        for (int t = 0; t < T; ++t) {
                            const i8x64 x = codes_at(t, x_at + q / 4 * (quantized_row::kChunk / 2) + q % 4 * 4);
                            for (int v = 0; v < kPanelVectors; ++v)
                                dot[t][v] = dot4<Kind::kFull>(dot[t][v], codes[v], x);
                        }
                    }
                };
                const bool correct_first = Kind::kOffset && planes == 1;
                for_each_sum<T>(
                    [&](int t, int v) { dot[t][v] = correct_first ? set1(corrections[at * T + t]) : zero_i32(); });
                const size_t x_at = 16 * quantized_row::half_group(g, part);
                add_products(x_at);
                if constexpr (planes == 2) {
                    for_each_sum<T>([&](int t, int v) { dot[t][v] = dot[t][v] << 7; });
                    add_products(quantized_row::low_offset(k) + x_at);
                }
                f32x16 scale[kPanelVectors];
                for (int v = 0; v < kPanelVectors; ++v) scale[v] = vector_of(panel.scales, at, v);
                for_each_sum<T>([&](int t, int v) {
                    if constexpr (Kind::kOffset && planes == 2) dot[t][v] += set1(corrections[at * T + t]);
                    sum[t][v] = fma(to_f32(dot[t][v]), scale[v] * set1(float_at(t, scale_at)), sum[t][v]);
                });
            }
            if constexpr (Kind::kMinimums) {
                for (uint32_t part = 0; part < parts; ++part) {
                    f32x16 minimum[kPanelVectors];
                    for (int v = 0; v < kPanelVectors; ++v)
                        minimum[v] = vector_of(panel.minimums, size_t{g} * parts + part, v);
                    for_each_sum<T>([&](int t, int v) {
                        float x_sum;
                        if constexpr (parts == 1) {
                            x_sum = float_at(t, quantized_row::scaled_sum_offset(k, planes) + 4 * size_t{g});
                        } else {
                            const size_t sum_at =
                                quantized_row::sum16_offset(k, planes) + 4 * quantized_row::half_group(g, part);
                            const int32_t x_codes = *reinterpret_cast<const int32_t*>(rows[t] + sum_at);
                            x_sum = float_at(t, scale_at) * static_cast<float>(x_codes);
                        }
                        sum[t][v] = fma(minimum[v], set1(x_sum), sum[t][v]);
                    });
                }
            }
        }
        for_each_sum<T>([&](int t, int v) { total[t][v] = phase == 0 ? sum[t][v] : total[t][v] + sum[t][v]; });
    }
}

// Calls visit.operator()<T>(first, count) for tiles of T activation rows, of which the last may hold fewer.
template <class Visit>
void for_each_tile(uint32_t rows, Visit visit) {
    for (uint32_t first = 0; first < rows;) {
        const uint32_t left = rows - first;
        if (left <= kTailRows || (left > kTileRows && left <= 2 * kTailRows)) {
            visit.template operator()<kTailRows>(first, min_u32(left, kTailRows));
            first += kTailRows;
        } else {
            visit.template operator()<kTileRows>(first, min_u32(left, kTileRows));
            first += kTileRows;
        }
    }
}

// The rows that a tile lacks repeat its last one.
template <class Unpack>
void multiply(const QuantizedProduct& product, uint32_t j_begin, uint32_t j_end, std::byte* scratch, bool again) {
    const auto& [weight, n, k, planes, rows] = product;
    const Panel panel = lay_out<Unpack>(scratch, k);
    const auto tile_rows = [&]<int T>(const uint8_t*(&x)[T], uint32_t first, uint32_t count) {
        for (uint32_t t = 0; t < T; ++t) x[t] = product.rows.at(first + min_u32(t, count - 1));
        return panel.corrections + first * panel_values<Unpack>(product.k);
    };
    if (Unpack::kOffset != 0 && !again) {
        for_each_tile(rows.count, [&]<int T>(uint32_t first, uint32_t count) {
            const uint8_t* x[T];
            int32_t* corrections = tile_rows(x, first, count);
            find_corrections<Unpack, T>(x, product.k, product.planes, corrections);
        });
    }
    for (uint32_t j = j_begin; j < j_end; j += kPanelRows) {
        unpack_panel<Unpack>(panel, weight, n, k, j);
        for_each_tile(rows.count, [&]<int T>(uint32_t first, uint32_t count) {
            const uint8_t* x[T];
            const int32_t* corrections = tile_rows(x, first, count);
            f32x16 sums[T][kPanelVectors] = {};
            const auto tile_of = product.planes == 1 ? tile<KindOf<Unpack>, T, 1> : tile<KindOf<Unpack>, T, 2>;
            tile_of(panel, corrections, x, product.k, sums);
            for (uint32_t v = 0; v < kPanelVectors && j + v * kVectorRows < j_end; ++v) {
                const uint32_t begin = j + v * kVectorRows, n_rows = min_u32(j_end - begin, kVectorRows);
                for (uint32_t t = 0; t < count; ++t) product.rows.finish(first + t, begin, n_rows, sums[t][v]);
            }
        });
    }
}

struct ManyRows {
    void (*multiply)(const QuantizedProduct&, uint32_t, uint32_t, std::byte*, bool);
    size_t (*scratch_bytes)(uint32_t k, uint32_t rows);
};

template <class... Unpack>
constexpr std::array<ManyRows, sizeof...(Unpack)> by_format(Unpackers<Unpack...>) {
    return {ManyRows{multiply<Unpack>, scratch_bytes<Unpack>}...};
}

constexpr auto kFunctions = by_format(AllUnpackers{});

}  // namespace

void multiply_many_rows(QuantizedFormat format, const QuantizedProduct& product, uint32_t j_begin, uint32_t j_end,
                        std::byte* scratch, bool again) {
    kFunctions[size_t(format)].multiply(product, j_begin, j_end, scratch, again);
}

size_t many_rows_scratch(QuantizedFormat format, uint32_t k, uint32_t rows) {
    return kFunctions[size_t(format)].scratch_bytes(k, rows);
}

}  // namespace ferrule::cpu::FERRULE_ISA
