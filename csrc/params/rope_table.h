// rope_table: the angles of every token's position, once per step and RoPE type.
// positions: i32 [rows]; frequencies: f32 [n] (radians per position, computed on the host in float64 and rounded once);
// out: f32 [rows, 2 * n]: n cosines, then n sines, each times `scale` (the attention factor of YaRN and longrope).
// The angle is formed in float64.
#pragma once
#include "metal_dispatch.h"
#include "signature.h"

namespace ferrule {

struct RopeTable {
    uint32_t n;
    float scale;
};

namespace rope_table {

enum Operand { positions, frequencies, out };

#ifndef __METAL_VERSION__
inline constexpr ParamField fields[] = {{"n", FieldType::u32, offsetof(RopeTable, n)},
                                        {"scale", FieldType::f32, offsetof(RopeTable, scale)}};
inline constexpr OperandInfo operands[] = {
    {"positions", Access::read}, {"frequencies", Access::read}, {"out", Access::write}};
inline constexpr OpSignature signature{"rope_table", sizeof(RopeTable), fields, operands};

inline constexpr MetalDispatch metal_dispatch(const RopeTable& params, const LaunchSizes& sizes) {
    return elementwise_dispatch(params.n, sizes);
}
#endif

}  // namespace rope_table

}  // namespace ferrule
