// root_mean_square: out[r] = sqrt(mean_i(x[r, i]^2)). x: f32 [rows, width]; out: f32 [rows].
#pragma once
#include "metal_dispatch.h"
#include "signature.h"

namespace ferrule {

struct RootMeanSquare {
    uint32_t width;
};

namespace root_mean_square {

enum Operand { x, out };

#ifndef __METAL_VERSION__
inline constexpr ParamField fields[] = {{"width", FieldType::u32, offsetof(RootMeanSquare, width)}};
inline constexpr OperandInfo operands[] = {{"x", Access::read}, {"out", Access::write}};
inline constexpr OpSignature signature{"root_mean_square", sizeof(RootMeanSquare), fields, operands};

inline constexpr MetalDispatch metal_dispatch(const RootMeanSquare& params, const LaunchSizes& sizes) {
    return reduction_dispatch(params.width, 1, sizes);
}
#endif

}  // namespace root_mean_square

}  // namespace ferrule
