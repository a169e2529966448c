// sectioned_rope_table: as rope_table, pair i turning with the position on axis axes[i] (Wang et al. 2024).
// axis_positions: i32 [rows, 3] (time, height, width); frequencies, axes: f32 [n], axes being 0, 1 or 2; out: f32
// [rows, 2 * n].
#pragma once
#include "metal_dispatch.h"
#include "signature.h"

namespace ferrule {

struct SectionedRopeTable {
    uint32_t n;
    float scale;
};

namespace sectioned_rope_table {

enum Operand { axis_positions, frequencies, axes, out };

#ifndef __METAL_VERSION__
inline constexpr ParamField fields[] = {{"n", FieldType::u32, offsetof(SectionedRopeTable, n)},
                                        {"scale", FieldType::f32, offsetof(SectionedRopeTable, scale)}};
inline constexpr OperandInfo operands[] = {
    {"axis_positions", Access::read}, {"frequencies", Access::read}, {"axes", Access::read}, {"out", Access::write}};
inline constexpr OpSignature signature{"sectioned_rope_table", sizeof(SectionedRopeTable), fields, operands};

inline constexpr MetalDispatch metal_dispatch(const SectionedRopeTable& params, const LaunchSizes& sizes) {
    return elementwise_dispatch(params.n, sizes);
}
#endif

}  // namespace sectioned_rope_table

}  // namespace ferrule
