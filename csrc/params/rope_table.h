// rope_table: the angles of every token's position, once per step and RoPE type.
// positions: i32 [rows]; frequencies: f32 [n] (radians per position, computed on the host in float64 and rounded once);
// out: f32 [rows, 2 * n]: n cosines, then n sines, each times `scale` (the attention factor of YaRN and longrope).
// The angle is formed in float64.
#pragma once
#include "signature.h"

namespace ferrule {

struct RopeTable {
    uint32_t n;
    float scale;
};

#ifndef __METAL_VERSION__
namespace rope_table {
enum Operand { positions, frequencies, out };
inline constexpr ParamField fields[] = {{"n", FieldType::u32, offsetof(RopeTable, n)},
                                        {"scale", FieldType::f32, offsetof(RopeTable, scale)}};
inline constexpr OperandInfo operands[] = {
    {"positions", Access::read},
    {"frequencies", Access::read},
    {"out", Access::write}};
inline constexpr OpSignature signature{"rope_table", sizeof(RopeTable), fields, operands};
}  // namespace rope_table
#endif

}  // namespace ferrule
