// rope: rotates the first 2 * n_pairs values of each head by the angles of a rope_table; the rest is copied.
// x, out: f32 [rows, heads * head_dim] (may be the same memory); table: f32 [rows, 2 * n_pairs].
// pairing 0 (half): pairs (i, i + n_pairs); 1 (adjacent): pairs (2i, 2i + 1).
#pragma once
#include "metal_dispatch.h"
#include "named_value.h"
#include "signature.h"

namespace ferrule {

#ifndef __METAL_VERSION__
inline constexpr NamedValue<uint32_t> kRopePairings[] = {{"half", 0}, {"adjacent", 1}};
#endif

struct Rope {
    uint32_t heads;
    uint32_t head_dim;
    uint32_t n_pairs;
    uint32_t pairing;
};

namespace rope {

enum Operand { x, table, out };
enum Constant { fc_pairing };

#ifndef __METAL_VERSION__
inline constexpr ParamField fields[] = {{"heads", FieldType::u32, offsetof(Rope, heads)},
                                        {"head_dim", FieldType::u32, offsetof(Rope, head_dim)},
                                        {"n_pairs", FieldType::u32, offsetof(Rope, n_pairs)},
                                        {"pairing", FieldType::u32, offsetof(Rope, pairing)}};
inline constexpr OperandInfo operands[] = {{"x", Access::read}, {"table", Access::read}, {"out", Access::write}};
inline constexpr OpSignature signature{"rope", sizeof(Rope), fields, operands};

// A thread per pair of a head and per value that is only copied.
inline constexpr MetalDispatch metal_dispatch(const Rope& params, const LaunchSizes& sizes) {
    const uint32_t width = params.head_dim - params.n_pairs;
    return {
        .x = params.heads, .y = sizes.rows, .threads = std::clamp(ceil_div(width, kSimdWidth), 1u, 8u) * kSimdWidth};
}
#endif

}  // namespace rope

}  // namespace ferrule
