// rms_norm: out[r, i] = x[r, i] / sqrt(mean_i(x[r, i]^2) + eps) * (weight_offset + weight[i])
// x, out: f32 [rows, groups * width], each group of `width` values normalised alone (groups > 1: one norm per head).
// An absent weight means weight = 1 with offset 0.
#pragma once
#include "metal_dispatch.h"
#include "signature.h"

namespace ferrule {

struct RmsNorm {
    uint32_t width;
    uint32_t groups;
    float eps;
    float weight_offset;
    uint32_t planes;
};

namespace rms_norm {

enum Operand { x, weight, out };
enum Constant { has_weight };

#ifndef __METAL_VERSION__
inline constexpr ParamField fields[] = {{"width", FieldType::u32, offsetof(RmsNorm, width)},
                                        {"groups", FieldType::u32, offsetof(RmsNorm, groups)},
                                        {"eps", FieldType::f32, offsetof(RmsNorm, eps)},
                                        {"weight_offset", FieldType::f32, offsetof(RmsNorm, weight_offset)},
                                        {"planes", FieldType::u32, offsetof(RmsNorm, planes)}};
inline constexpr OperandInfo operands[] = {{"x", Access::read}, {"weight", Access::read, true}, {"out", Access::write}};
inline constexpr OpSignature signature{"rms_norm", sizeof(RmsNorm), fields, operands};

inline constexpr MetalDispatch metal_dispatch(const RmsNorm& params, const LaunchSizes& sizes) {
    return reduction_dispatch(params.width, params.groups, sizes);
}
#endif

}  // namespace rms_norm

}  // namespace ferrule
