// take_columns: out[r, i] = x[r, begin + i]. x: f32 [rows, width]; out: f32 [rows, count].
#pragma once
#include "metal_dispatch.h"
#include "signature.h"

namespace ferrule {

struct TakeColumns {
    uint32_t width;
    uint32_t begin;
    uint32_t count;
};

namespace take_columns {

enum Operand { x, out };

#ifndef __METAL_VERSION__
inline constexpr ParamField fields[] = {{"width", FieldType::u32, offsetof(TakeColumns, width)},
                                        {"begin", FieldType::u32, offsetof(TakeColumns, begin)},
                                        {"count", FieldType::u32, offsetof(TakeColumns, count)}};
inline constexpr OperandInfo operands[] = {{"x", Access::read}, {"out", Access::write}};
inline constexpr OpSignature signature{"take_columns", sizeof(TakeColumns), fields, operands};

inline constexpr MetalDispatch metal_dispatch(const TakeColumns& params, const LaunchSizes& sizes) {
    return elementwise_dispatch(params.count, sizes);
}
#endif

}  // namespace take_columns

}  // namespace ferrule
