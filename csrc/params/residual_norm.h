// residual_norm: out = factor * (residual + rms_norm(x, weight)) and, where a norm follows, next = rms_norm(out,
// next_weight); both with the same eps and offset, see rms_norm.h. x, residual, out, next: f32 [rows, width]; weights:
// f32 [width], absent ones mean 1 with offset 0.
#pragma once
#include "metal_dispatch.h"
#include "signature.h"

namespace ferrule {

struct ResidualNorm {
    uint32_t width;
    float eps;
    float weight_offset;
    float factor;
};

namespace residual_norm {

enum Operand { x, weight, residual, out, next_weight, next };
enum Constant { has_weight, has_next_weight, has_next };

#ifndef __METAL_VERSION__
inline constexpr ParamField fields[] = {{"width", FieldType::u32, offsetof(ResidualNorm, width)},
                                        {"eps", FieldType::f32, offsetof(ResidualNorm, eps)},
                                        {"weight_offset", FieldType::f32, offsetof(ResidualNorm, weight_offset)},
                                        {"factor", FieldType::f32, offsetof(ResidualNorm, factor)}};
inline constexpr OperandInfo operands[] = {
    {"x", Access::read},    {"weight", Access::read, true},      {"residual", Access::read},
    {"out", Access::write}, {"next_weight", Access::read, true}, {"next", Access::write, true}};
inline constexpr OpSignature signature{"residual_norm", sizeof(ResidualNorm), fields, operands};

inline constexpr MetalDispatch metal_dispatch(const ResidualNorm& params, const LaunchSizes& sizes) {
    return reduction_dispatch(params.width, 1, sizes);
}
#endif

}  // namespace residual_norm

}  // namespace ferrule
