// Products of quantised weights and quantised activations, what matvec, matmul and expert_linear share: functions by
// weight format, so that each is compiled once. Few and many rows are summed alike (params/matmul.h).
#pragma once
#include <array>

#include "activation_rows.h"

namespace ferrule::cpu::FERRULE_ISA {

// A format's place among the quantised ones of formats::kFormats.
enum class QuantizedFormat : size_t {};

inline constexpr uint32_t kFewRows = 8;      // activation rows for which weights are taken apart once, in registers
inline constexpr uint32_t kVectorRows = 16;  // weight rows whose products are a vector
inline constexpr uint32_t kPanelRows = kVectorRows * simd::kPanelVectors;  // unpacked together for many activation rows

// Weight [n, k] and what it is multiplied with.
struct QuantizedProduct {
    const uint8_t* weight;
    uint32_t n;
    uint32_t k;
    uint32_t planes;  // of the activation rows
    const ActivationRows& rows;
};

// Multiplies weight rows [j_begin, j_end), j_begin a multiple of kVectorRows (best of kPanelRows), with all activation
// rows. `again`: scratch is as the last call left it, for the same product.
void multiply_few_rows(QuantizedFormat format, const QuantizedProduct& product, uint32_t j_begin, uint32_t j_end);
void multiply_many_rows(QuantizedFormat format, const QuantizedProduct& product, uint32_t j_begin, uint32_t j_end,
                        std::byte* scratch, bool again);

// Scratch of multiply_many_rows for at most so many activation rows.
size_t many_rows_scratch(QuantizedFormat format, uint32_t k, uint32_t rows);

}  // namespace ferrule::cpu::FERRULE_ISA
