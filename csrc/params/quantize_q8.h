// quantize_q8: x f32 [rows, parts * k] -> out: q8 rows (q8_row.h), one for each part of k values.
#pragma once
#include "signature.h"

namespace ferrule {

struct QuantizeQ8 {
    uint32_t k;
    uint32_t parts;
};

namespace quantize_q8 {

enum Operand { x, out };

#ifndef __METAL_VERSION__
inline constexpr ParamField fields[] = {{"k", FieldType::u32, offsetof(QuantizeQ8, k)},
                                        {"parts", FieldType::u32, offsetof(QuantizeQ8, parts)}};
inline constexpr OperandInfo operands[] = {{"x", Access::read}, {"out", Access::write}};
inline constexpr OpSignature signature{"quantize_q8", sizeof(QuantizeQ8), fields, operands};
#endif

}  // namespace quantize_q8

}  // namespace ferrule
