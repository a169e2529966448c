// limit_read, limit_int8, limit_f32: what the machine can do at most, for shares of it; no model uses them. Each row of
// out is a sum that cannot be left out.
// limit_read: x: bytes [rows, width], read once. limit_int8, limit_f32: `width` products of vectors of x, which has
// 1024 bytes, each 64 multiplications and additions of bytes or 16 of f32. out: f32 [rows, 16].
#pragma once
#include "signature.h"

namespace ferrule {

struct Limit {
    uint32_t width;
};

namespace limit {

enum Operand { x, out };

#ifndef __METAL_VERSION__
inline constexpr ParamField fields[] = {{"width", FieldType::u32, offsetof(Limit, width)}};
inline constexpr OperandInfo operands[] = {{"x", Access::read}, {"out", Access::write}};
inline constexpr OpSignature signature{"limit", sizeof(Limit), fields, operands};
#endif

}  // namespace limit

}  // namespace ferrule
