// dynamic_rope_table: as rope_table, frequency i times s^(-i / (n - 1)), where s = factor * l / threshold - (factor -
// 1) and l = max(lengths[r], threshold); the power is taken in float64. positions, lengths: i32 [rows]; frequencies:
// f32 [n]; out: f32 [rows, 2 * n].
#pragma once
#include "metal_dispatch.h"
#include "signature.h"

namespace ferrule {

struct DynamicRopeTable {
    uint32_t n;
    float factor;
    uint32_t threshold;
};

namespace dynamic_rope_table {

enum Operand { positions, lengths, frequencies, out };

#ifndef __METAL_VERSION__
inline constexpr ParamField fields[] = {{"n", FieldType::u32, offsetof(DynamicRopeTable, n)},
                                        {"factor", FieldType::f32, offsetof(DynamicRopeTable, factor)},
                                        {"threshold", FieldType::u32, offsetof(DynamicRopeTable, threshold)}};
inline constexpr OperandInfo operands[] = {
    {"positions", Access::read}, {"lengths", Access::read}, {"frequencies", Access::read}, {"out", Access::write}};
inline constexpr OpSignature signature{"dynamic_rope_table", sizeof(DynamicRopeTable), fields, operands};

inline constexpr MetalDispatch metal_dispatch(const DynamicRopeTable& params, const LaunchSizes& sizes) {
    return elementwise_dispatch(params.n, sizes);
}
#endif

}  // namespace dynamic_rope_table

}  // namespace ferrule
