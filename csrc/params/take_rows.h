// take_rows: out[r] = x[index[r]]. x: f32 [tokens, width]; index: i32 [rows]; out: f32 [rows, width].
#pragma once
#include "signature.h"

namespace ferrule {

struct TakeRows {
    uint32_t width;
};

namespace take_rows {

enum Operand { x, index, out };

#ifndef __METAL_VERSION__
inline constexpr ParamField fields[] = {{"width", FieldType::u32, offsetof(TakeRows, width)}};
inline constexpr OperandInfo operands[] = {{"x", Access::read}, {"index", Access::read}, {"out", Access::write}};
inline constexpr OpSignature signature{"take_rows", sizeof(TakeRows), fields, operands};
#endif

}  // namespace take_rows

}  // namespace ferrule
