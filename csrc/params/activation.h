// activation: out = act(x). x, out: f32 [rows, width].
#pragma once
#include "metal_dispatch.h"
#include "named_value.h"
#include "signature.h"

namespace ferrule {
// silu: x * sigmoid(x); gelu_tanh: 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))); gelu_erf:
// 0.5 x (1 + erf(x / sqrt 2)); relu2: max(x, 0)^2; sigmoid: 1 / (1 + exp(-x)); identity: x, for products of two rows.
enum class Activation : uint32_t {
    silu = 0,
    gelu_tanh = 1,
    gelu_erf = 2,
    relu = 3,
    relu2 = 4,
    sigmoid = 5,
    identity = 6
};

#ifndef __METAL_VERSION__
inline constexpr NamedValue<Activation> kActivations[] = {
    {"silu", Activation::silu},        {"gelu_tanh", Activation::gelu_tanh}, {"gelu_erf", Activation::gelu_erf},
    {"relu", Activation::relu},        {"relu2", Activation::relu2},         {"sigmoid", Activation::sigmoid},
    {"identity", Activation::identity}};
#endif

struct UnaryActivation {
    uint32_t width;
    uint32_t activation;
};

namespace activation {

enum Operand { x, out };
enum Constant { fc_activation };

#ifndef __METAL_VERSION__
inline constexpr ParamField fields[] = {{"width", FieldType::u32, offsetof(UnaryActivation, width)},
                                        {"activation", FieldType::u32, offsetof(UnaryActivation, activation)}};
inline constexpr OperandInfo operands[] = {{"x", Access::read}, {"out", Access::write}};
inline constexpr OpSignature signature{"activation", sizeof(UnaryActivation), fields, operands};
#endif

}  // namespace activation

}  // namespace ferrule
