// clamped_swiglu: out = g * sigmoid(alpha * g) * (u + 1), where g is `gate` limited to at most `limit` and u is `up`
// limited to [-limit, limit] (OpenAI 2025, gpt-oss). gate, up, out: f32 [rows, width].
#pragma once
#include "signature.h"

namespace ferrule {

struct ClampedSwiglu {
    uint32_t width;
    float alpha;
    float limit;
};

namespace clamped_swiglu {

enum Operand { gate, up, out };

#ifndef __METAL_VERSION__
inline constexpr ParamField fields[] = {{"width", FieldType::u32, offsetof(ClampedSwiglu, width)},
                                        {"alpha", FieldType::f32, offsetof(ClampedSwiglu, alpha)},
                                        {"limit", FieldType::f32, offsetof(ClampedSwiglu, limit)}};
inline constexpr OperandInfo operands[] = {{"gate", Access::read}, {"up", Access::read}, {"out", Access::write}};
inline constexpr OpSignature signature{"clamped_swiglu", sizeof(ClampedSwiglu), fields, operands};
#endif

}  // namespace clamped_swiglu

}  // namespace ferrule
