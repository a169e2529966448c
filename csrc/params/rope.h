// rope: rotates the first 2 * n_pairs values of each head by the angles of a rope_table; the rest is copied.
// x, out: f32 [rows, heads * head_dim] (may be the same memory); table: f32 [rows, 2 * n_pairs].
// pairing 0 (half): pairs (i, i + n_pairs); 1 (adjacent): pairs (2i, 2i + 1).
#pragma once
#include "signature.h"

namespace ferrule {

struct Rope {
    uint32_t heads;
    uint32_t head_dim;
    uint32_t n_pairs;
    uint32_t pairing;
};

#ifndef __METAL_VERSION__
namespace rope {
enum Operand { x, table, out };
inline constexpr ParamField fields[] = {{"heads", FieldType::u32, offsetof(Rope, heads)},
                                        {"head_dim", FieldType::u32, offsetof(Rope, head_dim)},
                                        {"n_pairs", FieldType::u32, offsetof(Rope, n_pairs)},
                                        {"pairing", FieldType::u32, offsetof(Rope, pairing)}};
inline constexpr OperandInfo operands[] = {
    {"x", Access::read},
    {"table", Access::read},
    {"out", Access::write}};
inline constexpr OpSignature signature{"rope", sizeof(Rope), fields, operands};
}  // namespace rope
#endif

}  // namespace ferrule
