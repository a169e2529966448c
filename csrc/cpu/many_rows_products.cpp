// Products of quantised weights and many rows of quantised activations, summed as in few_rows_products.cpp.
//
// A panel of 16 weight rows is unpacked once into scratch with lanes = weight rows:
//   codes   [k / 4][16][4] bytes        scales (minimums)   [k / 32][parts][16] f32
// Tiles of activation rows then run over the panel with one accumulator each; an activation's 4 codes are broadcast.
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

// Stores the codes of four rows so that 4 adjacent codes of each of them stand side by side.
inline void store_transposed(uint8_t* to, u8x64 a, u8x64 b, u8x64 c, u8x64 d) {
    transpose4x4(a, b, c, d);
    const u8x64 columns[4] = {a, b, c, d};
    constexpr size_t group_bytes = size_t{32} * kPanelRows, quad_bytes = size_t{4} * kPanelRows;
    for (size_t i = 0; i < 4; ++i) {
        uint8_t* p = to + i * quad_bytes;
        store4x16(p, p + group_bytes, p + 2 * group_bytes, p + 3 * group_bytes, columns[i]);
    }
}

// Chunk `chunk` of four rows of the panel, from `quad` on.
template <class Unpack>
[[gnu::always_inline]] inline void unpack_chunk(const Panel& panel, const FourRows<Unpack>& rows, uint32_t step,
                                                uint32_t half, uint32_t quad) {
    constexpr size_t parts = Unpack::kParts;
    const size_t chunk = size_t{step} * FourRows<Unpack>::kHalves + half;
    const Codes codes[4] = {rows.codes(step, half, 0), rows.codes(step, half, 1), rows.codes(step, half, 2),
                            rows.codes(step, half, 3)};
    const Scales scales = rows.scales(step, half);
    uint8_t* to = panel.codes + chunk * kChunk * kPanelRows + quad * 4;
    store_transposed(to, codes[0].first, codes[1].first, codes[2].first, codes[3].first);
    store_transposed(to + 16 * kPanelRows, codes[0].second, codes[1].second, codes[2].second, codes[3].second);
    for (size_t part = 0; part < parts; ++part) {
        const size_t at = (chunk * 4 * parts + part) * kPanelRows + quad;
        store_lanes(panel.scales + at, parts * kPanelRows, scales.scale[part]);
        if constexpr (Unpack::kMinimums) store_lanes(panel.minimums + at, parts * kPanelRows, scales.minimum[part]);
    }
}

template <class Unpack>
void unpack_panel(const Panel& panel, const uint8_t* weight, uint32_t n, uint32_t k, uint32_t j) {
    constexpr uint32_t halves = FourRows<Unpack>::kHalves;
    for (uint32_t quad = 0; quad < kPanelRows; quad += 4) {
        const FourRows<Unpack> rows(weight, n, k, j + quad);
        for (uint32_t step = 0; step < quantized_row::padded(k) / (halves * kChunk); ++step) {
            unpack_chunk(panel, rows, step, 0, quad);
            if constexpr (halves == 2) unpack_chunk(panel, rows, step, 1, quad);
        }
    }
}

template <class Unpack, int T>
void find_corrections(const uint8_t* const (&rows)[T], uint32_t k, uint32_t planes, int32_t* corrections) {
    for (uint32_t t = 0; t < T; ++t) {
        const int32_t* sum16 = quantized_row_at(rows[t], k, planes).sum16;
        for (uint32_t g = 0; g < quantized_row::padded(k) / 32; ++g) {
            const int32_t first = sum16[2 * g], second = sum16[2 * g + 1];
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

// T activation rows times the panel. Everything of a row is found from its start, so that there is one pointer a row
// for the compiler to keep.
template <class Kind, int T, int planes>
void tile(const Panel& panel, const int32_t* corrections, const uint8_t* const (&rows)[T], uint32_t k,
          f32x16 (&total)[T]) {
    constexpr uint32_t parts = Kind::kParts, quads = 8 / parts;
    const uint32_t groups = quantized_row::padded(k) / 32;
    const auto codes_at = [&](int t, size_t at) { return repeat4(reinterpret_cast<const int8_t*>(rows[t] + at)); };
    const auto float_at = [&](int t, size_t at) { return *reinterpret_cast<const float*>(rows[t] + at); };
    for (uint32_t phase = 0; phase < 4; ++phase) {
        f32x16 sum[T];
        for (int t = 0; t < T; ++t) sum[t] = zero_f32();
        for (uint32_t g = phase; g < groups; g += 4) {
            const size_t scale_at = quantized_row::scale_offset(k, planes) + 4 * size_t{g};
            for (uint32_t part = 0; part < parts; ++part) {
                const size_t at = size_t{g} * parts + part;
                i32x16 dot[T];
                for (int t = 0; t < T; ++t) dot[t] = zero_i32();
                for (uint32_t q = 0; q < quads; ++q) {
                    const u8x64 codes = load(panel.codes + (at * quads + q) * 64);
                    for (int t = 0; t < T; ++t)
                        dot[t] = dot4<Kind::kFull>(dot[t], codes, codes_at(t, (at * quads + q) * 4));
                }
                if constexpr (planes == 2) {
                    const size_t low_at = quantized_row::low_offset(k) + at * quads * 4;
                    for (int t = 0; t < T; ++t) dot[t] = dot[t] << 7;
                    for (uint32_t q = 0; q < quads; ++q) {
                        const u8x64 codes = load(panel.codes + (at * quads + q) * 64);
                        for (int t = 0; t < T; ++t)
                            dot[t] = dot4<Kind::kFull>(dot[t], codes, codes_at(t, low_at + q * 4));
                    }
                }
                const f32x16 scale = load(panel.scales + at * kPanelRows);
                for (int t = 0; t < T; ++t) {
                    if constexpr (Kind::kOffset) dot[t] += set1(corrections[at * T + t]);
                    sum[t] = fma(to_f32(dot[t]), scale * set1(float_at(t, scale_at)), sum[t]);
                }
            }
            if constexpr (Kind::kMinimums) {
                for (uint32_t part = 0; part < parts; ++part) {
                    const f32x16 minimum = load(panel.minimums + (size_t{g} * parts + part) * kPanelRows);
                    for (int t = 0; t < T; ++t) {
                        float x_sum;
                        if constexpr (parts == 1) {
                            x_sum = float_at(t, quantized_row::scaled_sum_offset(k, planes) + 4 * size_t{g});
                        } else {
                            const size_t sum_at = quantized_row::sum16_offset(k, planes) + 4 * (2 * size_t{g} + part);
                            const int32_t x_codes = *reinterpret_cast<const int32_t*>(rows[t] + sum_at);
                            x_sum = float_at(t, scale_at) * static_cast<float>(x_codes);
                        }
                        sum[t] = fma(minimum, set1(x_sum), sum[t]);
                    }
                }
            }
        }
        for (int t = 0; t < T; ++t) total[t] = phase == 0 ? sum[t] : total[t] + sum[t];
    }
}

// Calls visit.operator()<T>(first, count) for tiles of T activation rows, of which the last may hold fewer.
template <class Visit>
void for_each_tile(uint32_t rows, Visit visit) {
    for (uint32_t first = 0; first < rows;) {
        const uint32_t left = rows - first;
        if (left > kTileRows / 2) {
            visit.template operator()<kTileRows>(first, min_u32(left, kTileRows));
            first += kTileRows;
        } else {
            visit.template operator()<kTileRows / 2>(first, left);
            first += kTileRows / 2;
        }
    }
}

// The rows that a tile lacks repeat its last one.
template <class Unpack>
void multiply(const QuantizedProduct& product, uint32_t j_begin, uint32_t j_end, std::byte* scratch) {
    const auto& [weight, n, k, planes, rows] = product;
    const Panel panel = lay_out<Unpack>(scratch, k);
    const auto tile_rows = [&]<int T>(const uint8_t*(&x)[T], uint32_t first, uint32_t count) {
        for (uint32_t t = 0; t < T; ++t) x[t] = product.rows.at(first + min_u32(t, count - 1));
        return panel.corrections + first * panel_values<Unpack>(product.k);
    };
    if constexpr (Unpack::kOffset != 0) {
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
            f32x16 sums[T] = {};
            const auto tile_of = product.planes == 1 ? tile<KindOf<Unpack>, T, 1> : tile<KindOf<Unpack>, T, 2>;
            tile_of(panel, corrections, x, product.k, sums);
            const uint32_t j_count = min_u32(product.n - j, kPanelRows);
            for (uint32_t t = 0; t < count; ++t) product.rows.finish(first + t, j, j_count, sums[t]);
        });
    }
}

struct ManyRows {
    void (*multiply)(const QuantizedProduct&, uint32_t, uint32_t, std::byte*);
    size_t (*scratch_bytes)(uint32_t k, uint32_t rows);
};

template <class... Unpack>
constexpr std::array<ManyRows, sizeof...(Unpack)> by_format(Unpackers<Unpack...>) {
    return {ManyRows{multiply<Unpack>, scratch_bytes<Unpack>}...};
}

constexpr auto kFunctions = by_format(AllUnpackers{});
static_assert(kFunctions.size() == size_t(QuantizedFormat::count));

}  // namespace

void multiply_many_rows(QuantizedFormat format, const QuantizedProduct& product, uint32_t j_begin, uint32_t j_end,
                        std::byte* scratch) {
    kFunctions[size_t(format)].multiply(product, j_begin, j_end, scratch);
}

size_t many_rows_scratch(QuantizedFormat format, uint32_t k, uint32_t rows) {
    return kFunctions[size_t(format)].scratch_bytes(k, rows);
}

}  // namespace ferrule::cpu::FERRULE_ISA
