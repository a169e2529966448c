// quantize_q8: x f32 [rows, k] -> out: q8 rows (q8_row.h).
#pragma once
#include "signature.h"

namespace ferrule {

struct QuantizeQ8 {
    uint32_t k;
};

namespace quantize_q8 {

enum Operand { x, out };

#ifndef __METAL_VERSION__
inline constexpr ParamField fields[] = {{"k", FieldType::u32, offsetof(QuantizeQ8, k)}};
inline constexpr OperandInfo operands[] = {{"x", Access::read}, {"out", Access::write}};
inline constexpr OpSignature signature{"quantize_q8", sizeof(QuantizeQ8), fields, operands};
#endif

}  // namespace quantize_q8

}  // namespace ferrule
