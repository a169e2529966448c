// xielu: out = positive * x^2 + beta * x where x > 0, else negative * (expm1(min(x, eps)) - x) + beta * x (Huang 2024).
// x, out: f32 [rows, width].
#pragma once
#include "signature.h"

namespace ferrule {

struct Xielu {
    uint32_t width;
    float positive;
    float negative;
    float beta;
    float eps;
};

namespace xielu {

enum Operand { x, out };

#ifndef __METAL_VERSION__
inline constexpr ParamField fields[] = {{"width", FieldType::u32, offsetof(Xielu, width)},
                                        {"positive", FieldType::f32, offsetof(Xielu, positive)},
                                        {"negative", FieldType::f32, offsetof(Xielu, negative)},
                                        {"beta", FieldType::f32, offsetof(Xielu, beta)},
                                        {"eps", FieldType::f32, offsetof(Xielu, eps)}};
inline constexpr OperandInfo operands[] = {{"x", Access::read}, {"out", Access::write}};
inline constexpr OpSignature signature{"xielu", sizeof(Xielu), fields, operands};
#endif

}  // namespace xielu

}  // namespace ferrule
