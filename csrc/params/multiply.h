// multiply: out[r, i] = x[r, i] * factors[r * factor_stride + i / group]: each run of `group` values of a row has a
// factor. x, out: f32 [rows, width]; factors: f32, width / group for every row (factor_stride 0) or for each.
#pragma once
#include "signature.h"

namespace ferrule {

struct Multiply {
    uint32_t width;
    uint32_t group;
    uint32_t factor_stride;
};

namespace multiply {

enum Operand { x, factors, out };

#ifndef __METAL_VERSION__
inline constexpr ParamField fields[] = {{"width", FieldType::u32, offsetof(Multiply, width)},
                                        {"group", FieldType::u32, offsetof(Multiply, group)},
                                        {"factor_stride", FieldType::u32, offsetof(Multiply, factor_stride)}};
inline constexpr OperandInfo operands[] = {{"x", Access::read}, {"factors", Access::read}, {"out", Access::write}};
inline constexpr OpSignature signature{"multiply", sizeof(Multiply), fields, operands};
#endif

}  // namespace multiply

}  // namespace ferrule
