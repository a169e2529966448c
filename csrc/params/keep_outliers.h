// keep_outliers: out[r, i] = max(0, x[r, i] - (mean + deviations * standard deviation)) of the row's values.
// x, out: f32 [rows, width].
#pragma once
#include "metal_dispatch.h"
#include "signature.h"

namespace ferrule {

struct KeepOutliers {
    uint32_t width;
    float deviations;
};

namespace keep_outliers {

enum Operand { x, out };

#ifndef __METAL_VERSION__
inline constexpr ParamField fields[] = {{"width", FieldType::u32, offsetof(KeepOutliers, width)},
                                        {"deviations", FieldType::f32, offsetof(KeepOutliers, deviations)}};
inline constexpr OperandInfo operands[] = {{"x", Access::read}, {"out", Access::write}};
inline constexpr OpSignature signature{"keep_outliers", sizeof(KeepOutliers), fields, operands};

inline constexpr MetalDispatch metal_dispatch(const KeepOutliers& params, const LaunchSizes& sizes) {
    return reduction_dispatch(params.width, 1, sizes);
}
#endif

}  // namespace keep_outliers

}  // namespace ferrule
