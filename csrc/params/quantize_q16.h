// quantize_q16: x f32 [rows, parts * k] -> out: q16 rows (q16_row.h), one for each part of k values.
#pragma once
#include "signature.h"

namespace ferrule {

struct QuantizeQ16 {
    uint32_t k;
    uint32_t parts;
};

namespace quantize_q16 {

enum Operand { x, out };

#ifndef __METAL_VERSION__
inline constexpr ParamField fields[] = {{"k", FieldType::u32, offsetof(QuantizeQ16, k)},
                                        {"parts", FieldType::u32, offsetof(QuantizeQ16, parts)}};
inline constexpr OperandInfo operands[] = {{"x", Access::read}, {"out", Access::write}};
inline constexpr OpSignature signature{"quantize_q16", sizeof(QuantizeQ16), fields, operands};
#endif

}  // namespace quantize_q16

}  // namespace ferrule
