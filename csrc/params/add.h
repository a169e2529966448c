// add: out = a + b. a, b, out: f32 [rows, width].
#pragma once
#include "signature.h"

namespace ferrule {

struct Add {
    uint32_t width;
};

namespace add {

enum Operand { a, b, out };

#ifndef __METAL_VERSION__
inline constexpr ParamField fields[] = {{"width", FieldType::u32, offsetof(Add, width)}};
inline constexpr OperandInfo operands[] = {{"a", Access::read}, {"b", Access::read}, {"out", Access::write}};
inline constexpr OpSignature signature{"add", sizeof(Add), fields, operands};
#endif

}  // namespace add

}  // namespace ferrule
