// expert_linear: for each row r and slot s of `slots`, with e the slot's expert:
//   out[r, s, j] = (sum_i(x[r, s', i] * weight[e][j, i]) + bias[e, j]) * (weighted ? routes' weight of the slot : 1)
// e is routes[r, s] (route.h) or, where `routes` is absent, s. x: [rows, x_slots, k] with x_slots 1 (s' = 0) or `slots`
// (s' = s), f32 for float weights, else one quantised row (quantized_row.h) for each part of k values; out: f32 [rows,
// slots, n]; bias: f32 [experts, n]. `weight` is the matrix [n, k] of expert 0 and offsets, i64 [experts], says how
// many bytes after it that of each expert begins: matrices may lie anywhere. Sums are those of matmul.h. Rows that
// chose the same expert read its weights together; experts that no row chose are not read.
#pragma once
#include "signature.h"

namespace ferrule {

struct ExpertLinear {
    uint32_t k;
    uint32_t n;
    uint32_t experts;
    uint32_t slots;
    uint32_t x_slots;
    uint32_t weighted;
    uint32_t planes;
};

namespace expert_linear {

enum Operand { x, routes, weight, offsets, bias, out };

#ifndef __METAL_VERSION__
inline constexpr ParamField fields[] = {{"k", FieldType::u32, offsetof(ExpertLinear, k)},
                                        {"n", FieldType::u32, offsetof(ExpertLinear, n)},
                                        {"experts", FieldType::u32, offsetof(ExpertLinear, experts)},
                                        {"slots", FieldType::u32, offsetof(ExpertLinear, slots)},
                                        {"x_slots", FieldType::u32, offsetof(ExpertLinear, x_slots)},
                                        {"weighted", FieldType::u32, offsetof(ExpertLinear, weighted)},
                                        {"planes", FieldType::u32, offsetof(ExpertLinear, planes)}};
inline constexpr OperandInfo operands[] = {{"x", Access::read},          {"routes", Access::read, true},
                                           {"weight", Access::read},     {"offsets", Access::read},
                                           {"bias", Access::read, true}, {"out", Access::write}};
inline constexpr OpSignature signature{"expert_linear", sizeof(ExpertLinear), fields, operands};
#endif

}  // namespace expert_linear

}  // namespace ferrule
