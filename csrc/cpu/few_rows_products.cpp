// Products of quantised weights and few rows of quantised activations. Weights are read once, straight from the file's
// rows, and taken apart in registers for all activation rows: the work is bound by memory.
//
// Four weight rows are taken at a time, in chunks of 128 inputs: lane g of a vector belongs to group g of the chunk,
// element r of the lane to weight row r, so that one vector carries the 16 group sums.
#include "four_rows.h"
#include "quantize_row.h"
#include "quantized_products.h"
#include "unpack/all.h"

namespace ferrule::cpu::FERRULE_ISA {
namespace {

using namespace simd;

// One plane of a chunk of activation codes: values 0-15 of group g in lane g, then values 16-31.
struct Plane {
    i8x64 first, second;

    Plane() = default;
    explicit Plane(const int8_t* codes) : first(load(codes)), second(load(codes + 64)) {}
};

// The exact dot products, four adjacent ones to an element, of one part of a group: all of it, or where a group has two
// scales its first or second half.
template <class Unpack, int part, int planes>
i32x16 part_products(const Codes& codes, const Plane& high, const Plane& low) {
    constexpr bool full = Unpack::kFull;
    constexpr bool first = Unpack::kParts == 1 || part == 0, second = Unpack::kParts == 1 || part == 1;
    i32x16 sum = zero_i32();
    if constexpr (first) sum = dot4<full>(sum, codes.first, high.first);
    if constexpr (second) sum = dot4<full>(sum, codes.second, high.second);
    if constexpr (planes == 2) {
        sum = sum << 7;
        if constexpr (first) sum = dot4<full>(sum, codes.first, low.first);
        if constexpr (second) sum = dot4<full>(sum, codes.second, low.second);
    }
    return sum;
}

// Corrects the sums of codes' products for the codes' offset.
template <class Unpack, int part>
f32x16 without_offset(i32x16 products, const int32_t* sum16) {
    if constexpr (Unpack::kOffset == 0) return to_f32(products);
    i32x16 x_sum = lanes4(sum16 + 4 * part);
    if constexpr (Unpack::kParts == 1) x_sum += lanes4(sum16 + 4);
    return to_f32(products - set1(int32_t{Unpack::kOffset}) * x_sum);
}

// sum + one chunk of four weight rows, whose codes are codes_of(row), times an activation row.
template <class Unpack, int planes, class CodesOf>
[[gnu::always_inline]] inline f32x16 accumulate(f32x16 sum, CodesOf codes_of, const Scales& scales,
                                                const QuantizedRow& x, uint32_t chunk) {
    const Plane high(x.high + kChunk * chunk);
    Plane low;
    if constexpr (planes == 2) low = Plane(x.low + kChunk * chunk);
    i32x16 products[2][4];
    for (int r = 0; r < 4; ++r) {
        const Codes& codes = codes_of(r);
        products[0][r] = part_products<Unpack, 0, planes>(codes, high, low);
        if constexpr (Unpack::kParts == 2) products[1][r] = part_products<Unpack, 1, planes>(codes, high, low);
    }
    const f32x16 x_scale = lanes4(x.scale + 4 * chunk);
    const int32_t* sum16 = x.sum16 + 8 * chunk;

    const i32x16(&p)[4] = products[0];
    sum = fma(without_offset<Unpack, 0>(sum4x4(p[0], p[1], p[2], p[3]), sum16), scales.scale[0] * x_scale, sum);
    if constexpr (Unpack::kParts == 2) {
        const i32x16(&q)[4] = products[1];
        sum = fma(without_offset<Unpack, 1>(sum4x4(q[0], q[1], q[2], q[3]), sum16), scales.scale[1] * x_scale, sum);
    }
    if constexpr (Unpack::kMinimums && Unpack::kParts == 1) {
        sum = fma(scales.minimum[0], lanes4(x.scaled_sum + 4 * chunk), sum);
    } else if constexpr (Unpack::kMinimums) {
        sum = fma(scales.minimum[0], x_scale * to_f32(lanes4(sum16)), sum);
        sum = fma(scales.minimum[1], x_scale * to_f32(lanes4(sum16 + 4)), sum);
    }
    return sum;
}

// sums[i][r .. r + 3]: activation row i times four weight rows. With `one`, n_x is 1 and the sum stays in a register.
template <class Unpack, bool one, int planes>
void four_rows(const FourRows<Unpack>& weights, uint32_t n_steps, const QuantizedRow* x, uint32_t n_x, uint32_t r,
               float (*sums)[kVectorRows]) {
    f32x16 totals[one ? 1 : kFewRows];
    for (uint32_t i = 0; i < n_x; ++i) totals[i] = zero_f32();
    const auto add_chunk = [&](uint32_t step, uint32_t half) __attribute__((always_inline)) {
        const Scales scales = weights.scales(step, half);
        const uint32_t chunk = step * FourRows<Unpack>::kHalves + half;
        if constexpr (one) {
            const auto codes_of = [&](int r) { return weights.codes(step, half, r); };
            totals[0] = accumulate<Unpack, planes>(totals[0], codes_of, scales, x[0], chunk);
        } else {
            const Codes codes[4] = {weights.codes(step, half, 0), weights.codes(step, half, 1),
                                    weights.codes(step, half, 2), weights.codes(step, half, 3)};
            const auto codes_of = [&](int r) -> const Codes& { return codes[r]; };
            for (uint32_t i = 0; i < n_x; ++i)
                totals[i] = accumulate<Unpack, planes>(totals[i], codes_of, scales, x[i], chunk);
        }
    };
    for (uint32_t step = 0; step < n_steps; ++step) {
        weights.prefetch(step);
        add_chunk(step, 0);
        if constexpr (FourRows<Unpack>::kHalves == 2) add_chunk(step, 1);
    }
    for (uint32_t i = 0; i < n_x; ++i) add_lanes(sums[i] + r, totals[i]);
}

template <class Unpack>
void multiply(const QuantizedProduct& product, uint32_t j_begin, uint32_t j_end) {
    const auto& [weight, n, k, planes, rows] = product;
    const uint32_t n_steps = quantized_row::padded(k) / (FourRows<Unpack>::kHalves * kChunk);
    for (uint32_t first = 0; first < rows.count; first += kFewRows) {
        const uint32_t n_x = min_u32(rows.count - first, kFewRows);
        QuantizedRow x[kFewRows];
        for (uint32_t i = 0; i < n_x; ++i) x[i] = quantized_row_at(rows.at(first + i), k, planes);
        for (uint32_t j = j_begin; j < j_end; j += kVectorRows) {
            const uint32_t j_count = min_u32(n - j, kVectorRows);
            float sums[kFewRows][kVectorRows];
            for (uint32_t r = 0; r < j_count; r += 4) {
                const FourRows<Unpack> four(weight, n, k, j + r, 4);
                if (planes == 1) {
                    (n_x == 1 ? four_rows<Unpack, true, 1> : four_rows<Unpack, false, 1>)(four, n_steps, x, n_x, r,
                                                                                          sums);
                } else {
                    (n_x == 1 ? four_rows<Unpack, true, 2> : four_rows<Unpack, false, 2>)(four, n_steps, x, n_x, r,
                                                                                          sums);
                }
            }
            for (uint32_t i = 0; i < n_x; ++i) rows.finish(first + i, j, j_count, load(sums[i]));
        }
    }
}

using Multiply = void (*)(const QuantizedProduct&, uint32_t, uint32_t);

template <class... Unpack>
constexpr std::array<Multiply, sizeof...(Unpack)> by_format(Unpackers<Unpack...>) {
    return {multiply<Unpack>...};
}

}  // namespace

void multiply_few_rows(QuantizedFormat format, const QuantizedProduct& product, uint32_t j_begin, uint32_t j_end) {
    static constexpr auto functions = by_format(AllUnpackers{});
    functions[size_t(format)](product, j_begin, j_end);
}

}  // namespace ferrule::cpu::FERRULE_ISA
