// gated_activation: out = act(gate) * up. gate, up: f32 [rows, width]; out: f32 [rows, width], or for
// gated_activation_quantize quantised rows (quantized_row.h), one for each of `parts` equal parts of a row. activation:
// see activation.h.
#pragma once
#include "activation.h"
#include "metal_dispatch.h"
#include "signature.h"

namespace ferrule {

struct GatedActivation {
    uint32_t width;
    uint32_t activation;
    uint32_t parts;
    uint32_t planes;
};

namespace gated_activation {

enum Operand { gate, up, out };
enum Constant { fc_activation };

#ifndef __METAL_VERSION__
inline constexpr ParamField fields[] = {{"width", FieldType::u32, offsetof(GatedActivation, width)},
                                        {"activation", FieldType::u32, offsetof(GatedActivation, activation)},
                                        {"parts", FieldType::u32, offsetof(GatedActivation, parts)},
                                        {"planes", FieldType::u32, offsetof(GatedActivation, planes)}};
inline constexpr OperandInfo operands[] = {{"gate", Access::read}, {"up", Access::read}, {"out", Access::write}};
inline constexpr OpSignature signature{"gated_activation", sizeof(GatedActivation), fields, operands};
#endif

}  // namespace gated_activation

}  // namespace ferrule
