// clamp: out = x limited to [-limit, limit]. x, out: f32 [rows, width].
#pragma once
#include "signature.h"

namespace ferrule {

struct Clamp {
    uint32_t width;
    float limit;
};

namespace clamp {

enum Operand { x, out };

#ifndef __METAL_VERSION__
inline constexpr ParamField fields[] = {{"width", FieldType::u32, offsetof(Clamp, width)},
                                        {"limit", FieldType::f32, offsetof(Clamp, limit)}};
inline constexpr OperandInfo operands[] = {{"x", Access::read}, {"out", Access::write}};
inline constexpr OpSignature signature{"clamp", sizeof(Clamp), fields, operands};
#endif

}  // namespace clamp

}  // namespace ferrule
