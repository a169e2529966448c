// expert_linear: for each row r and slot s of `slots`, with e the slot's expert:
//   out[r, s, j] = (sum_i(x[r, s', i] * weight[e][j, i]) + bias[e, j]) * (weighted ? routes' weight of the slot : 1)
// e is routes[r, s] (route.h) or, where `routes` is absent, s. x: [rows, x_slots, k] with x_slots 1 (s' = 0) or `slots`
// (s' = s), f32 for float weights and on Metal, else one quantised row (quantized_row.h) for each part of k values, of
// bfloat16 for `expert_linear_<format>_rounded`; out: f32 [rows, slots, n]; bias: f32 [experts, n]. weight: u64
// [experts], the address of each expert's matrix [n, k] in a weight format (the kernel's suffix); matrices may lie
// anywhere. Sums are those of matmul.h. Experts that no row chose are not read. On the CPU rows that chose the same
// expert read its weights together. On Metal `expert_matvec_<format>` serves few rows, each slot alone, and
// `expert_matmul_<format>` many, in the order of expert_order.h, which only it needs.
#pragma once
#include "expert_order.h"
#include "metal_dispatch.h"
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

enum Operand { x, routes, order, weight, bias, out };
enum Constant { has_routes, has_bias, fc_weighted };

// Metal: simdgroups of a threadgroup of expert_matvec, and the weight rows of each.
FERRULE_CONSTANT uint32_t kMatvecSimdgroups = 2;
FERRULE_CONSTANT uint32_t kMatvecRows = 4;

#ifndef __METAL_VERSION__
inline constexpr ParamField fields[] = {{"k", FieldType::u32, offsetof(ExpertLinear, k)},
                                        {"n", FieldType::u32, offsetof(ExpertLinear, n)},
                                        {"experts", FieldType::u32, offsetof(ExpertLinear, experts)},
                                        {"slots", FieldType::u32, offsetof(ExpertLinear, slots)},
                                        {"x_slots", FieldType::u32, offsetof(ExpertLinear, x_slots)},
                                        {"weighted", FieldType::u32, offsetof(ExpertLinear, weighted)},
                                        {"planes", FieldType::u32, offsetof(ExpertLinear, planes)}};
inline constexpr OperandInfo operands[] = {{"x", Access::read},           {"routes", Access::read, true},
                                           {"order", Access::read, true}, {"weight", Access::read},
                                           {"bias", Access::read, true},  {"out", Access::write}};
inline constexpr OpSignature signature{"expert_linear", sizeof(ExpertLinear), fields, operands};

// expert_matvec_<format>: a slot for all rows of its expert's weights.
inline constexpr MetalDispatch matvec_dispatch(const ExpertLinear& params, const LaunchSizes& sizes) {
    return {.x = ceil_div(params.n, kMatvecSimdgroups * kMatvecRows),
            .y = sizes.rows * params.slots,
            .threads = kMatvecSimdgroups * kSimdWidth};
}

// expert_matmul_<format>: a threadgroup per tile of one expert's slots and of its outputs.
inline constexpr MetalDispatch matmul_dispatch(const ExpertLinear& params, const LaunchSizes& sizes) {
    return {.x = expert_order::first_tile(params.experts, sizes.rows * params.slots),
            .y = ceil_div(params.n, product_tile::kColumns),
            .threads = product_tile::kThreads};
}
#endif

}  // namespace expert_linear

}  // namespace ferrule
