// quantize: x f32 [rows, parts * k] -> out: rows of codes in `planes` planes, or of bfloat16 (quantized_row.h), one for
// each part of k values.
#pragma once
#include "signature.h"

namespace ferrule {

struct Quantize {
    uint32_t k;
    uint32_t parts;
    uint32_t planes;
};

namespace quantize {

enum Operand { x, out };

#ifndef __METAL_VERSION__
inline constexpr ParamField fields[] = {{"k", FieldType::u32, offsetof(Quantize, k)},
                                        {"parts", FieldType::u32, offsetof(Quantize, parts)},
                                        {"planes", FieldType::u32, offsetof(Quantize, planes)}};
inline constexpr OperandInfo operands[] = {{"x", Access::read}, {"out", Access::write}};
inline constexpr OpSignature signature{"quantize", sizeof(Quantize), fields, operands};
#endif

}  // namespace quantize

}  // namespace ferrule
