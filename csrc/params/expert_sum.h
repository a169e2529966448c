// expert_sum: out[r, i] = sum over slots s, in order, of x[r, s, i] * (weighted ? routes' weight of the slot : 1), plus
// residual[r, i]. x: f32 [rows, slots, width]; routes: see route.h; residual, out: f32 [rows, width].
#pragma once
#include "signature.h"

namespace ferrule {

struct ExpertSum {
    uint32_t width;
    uint32_t slots;
    uint32_t weighted;
};

namespace expert_sum {

enum Operand { x, routes, residual, out };
enum Constant { has_residual, fc_weighted };

#ifndef __METAL_VERSION__
inline constexpr ParamField fields[] = {{"width", FieldType::u32, offsetof(ExpertSum, width)},
                                        {"slots", FieldType::u32, offsetof(ExpertSum, slots)},
                                        {"weighted", FieldType::u32, offsetof(ExpertSum, weighted)}};
inline constexpr OperandInfo operands[] = {
    {"x", Access::read}, {"routes", Access::read}, {"residual", Access::read, true}, {"out", Access::write}};
inline constexpr OpSignature signature{"expert_sum", sizeof(ExpertSum), fields, operands};
#endif

}  // namespace expert_sum

}  // namespace ferrule
