// softcap: out = cap * tanh(x / cap). x, out: f32 [rows, width].
#pragma once
#include "signature.h"

namespace ferrule {

struct Softcap {
    uint32_t width;
    float cap;
};

namespace softcap {

enum Operand { x, out };

#ifndef __METAL_VERSION__
inline constexpr ParamField fields[] = {{"width", FieldType::u32, offsetof(Softcap, width)},
                                        {"cap", FieldType::f32, offsetof(Softcap, cap)}};
inline constexpr OperandInfo operands[] = {{"x", Access::read}, {"out", Access::write}};
inline constexpr OpSignature signature{"softcap", sizeof(Softcap), fields, operands};
#endif

}  // namespace softcap

}  // namespace ferrule
