// scale: out = factor * x. x, out: f32 [rows, width].
#pragma once
#include "signature.h"

namespace ferrule {

struct Scale {
    uint32_t width;
    float factor;
};

namespace scale {

enum Operand { x, out };

#ifndef __METAL_VERSION__
inline constexpr ParamField fields[] = {{"width", FieldType::u32, offsetof(Scale, width)},
                                        {"factor", FieldType::f32, offsetof(Scale, factor)}};
inline constexpr OperandInfo operands[] = {{"x", Access::read}, {"out", Access::write}};
inline constexpr OpSignature signature{"scale", sizeof(Scale), fields, operands};
#endif

}  // namespace scale

}  // namespace ferrule
