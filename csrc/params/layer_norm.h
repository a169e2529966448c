// layer_norm: out[r, i] = (x[r, i] - mean) / sqrt(variance + eps) * (weight_offset + weight[i]) + bias[i], mean and
// variance over the row (Ba et al. 2016). x, out: f32 [rows, groups * width], each group of `width` values normalised
// alone; out is quantised rows for layer_norm_quantize (one group). An absent weight means weight = 1 with offset 0.
#pragma once
#include "metal_dispatch.h"
#include "signature.h"

namespace ferrule {

struct LayerNorm {
    uint32_t width;
    uint32_t groups;
    float eps;
    float weight_offset;
    uint32_t planes;
};

namespace layer_norm {

enum Operand { x, weight, bias, out };
enum Constant { has_weight, has_bias };

#ifndef __METAL_VERSION__
inline constexpr ParamField fields[] = {{"width", FieldType::u32, offsetof(LayerNorm, width)},
                                        {"groups", FieldType::u32, offsetof(LayerNorm, groups)},
                                        {"eps", FieldType::f32, offsetof(LayerNorm, eps)},
                                        {"weight_offset", FieldType::f32, offsetof(LayerNorm, weight_offset)},
                                        {"planes", FieldType::u32, offsetof(LayerNorm, planes)}};
inline constexpr OperandInfo operands[] = {
    {"x", Access::read}, {"weight", Access::read, true}, {"bias", Access::read, true}, {"out", Access::write}};
inline constexpr OpSignature signature{"layer_norm", sizeof(LayerNorm), fields, operands};

inline constexpr MetalDispatch metal_dispatch(const LayerNorm& params, const LaunchSizes& sizes) {
    return reduction_dispatch(params.width, params.groups, sizes);
}
#endif

}  // namespace layer_norm

}  // namespace ferrule
