// mix_streams: out[r, i] = residual[r, i] + sum over j, in order, of coefficients[r * coefficient_stride + i * inputs +
// j]
// * x[r, j], of vectors of `width` values. x: f32 [rows, inputs, width]; coefficients: f32 [outputs, inputs], for every
// row (coefficient_stride 0) or for each; residual (zero where absent), out: f32 [rows, outputs, width].
#pragma once
#include "metal_dispatch.h"
#include "signature.h"

namespace ferrule {

struct MixStreams {
    uint32_t width;
    uint32_t inputs;
    uint32_t outputs;
    uint32_t coefficient_stride;
};

namespace mix_streams {

enum Operand { x, coefficients, residual, out };
enum Constant { has_residual };

#ifndef __METAL_VERSION__
inline constexpr ParamField fields[] = {
    {"width", FieldType::u32, offsetof(MixStreams, width)},
    {"inputs", FieldType::u32, offsetof(MixStreams, inputs)},
    {"outputs", FieldType::u32, offsetof(MixStreams, outputs)},
    {"coefficient_stride", FieldType::u32, offsetof(MixStreams, coefficient_stride)}};
inline constexpr OperandInfo operands[] = {
    {"x", Access::read}, {"coefficients", Access::read}, {"residual", Access::read, true}, {"out", Access::write}};
inline constexpr OpSignature signature{"mix_streams", sizeof(MixStreams), fields, operands};

inline constexpr MetalDispatch metal_dispatch(const MixStreams& params, const LaunchSizes& sizes) {
    MetalDispatch dispatch = elementwise_dispatch(params.width, sizes);
    dispatch.z = params.outputs;
    return dispatch;
}
#endif

}  // namespace mix_streams

}  // namespace ferrule
