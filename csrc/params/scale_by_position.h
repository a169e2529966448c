// scale_by_position: out = x * (1 + beta * log(1 + floor((position + offset) / period))), the factor in float64.
// x, out: f32 [rows, width]; positions: i32 [rows].
#pragma once
#include "signature.h"

namespace ferrule {

struct ScaleByPosition {
    uint32_t width;
    float beta;
    float period;
    uint32_t offset;
};

namespace scale_by_position {

enum Operand { x, positions, out };

#ifndef __METAL_VERSION__
inline constexpr ParamField fields[] = {{"width", FieldType::u32, offsetof(ScaleByPosition, width)},
                                        {"beta", FieldType::f32, offsetof(ScaleByPosition, beta)},
                                        {"period", FieldType::f32, offsetof(ScaleByPosition, period)},
                                        {"offset", FieldType::u32, offsetof(ScaleByPosition, offset)}};
inline constexpr OperandInfo operands[] = {{"x", Access::read}, {"positions", Access::read}, {"out", Access::write}};
inline constexpr OpSignature signature{"scale_by_position", sizeof(ScaleByPosition), fields, operands};
#endif

}  // namespace scale_by_position

}  // namespace ferrule
