// expert_order: a step's row slots in the order of their experts, for expert_linear of many rows on Metal. Slot s of
// row r has the number r * slots + s; its expert is routes[r, s] (route.h) or, where `routes` is absent, s. out: u32
// [rows * slots], the numbers by expert, those of one expert ascending; then ExpertTile [n_tiles]: the slots of each
// expert cut into runs of at most product_tile::kRows. Between the tiles of two experts there may be empty ones.
#pragma once
#include "metal_dispatch.h"
#include "product_tile.h"
#include "signature.h"

namespace ferrule {

struct ExpertOrder {
    uint32_t experts;
    uint32_t slots;
};

// Slots order[begin] to order[end - 1] of one expert; none where begin = end.
struct ExpertTile {
    uint32_t expert;
    uint32_t begin;
    uint32_t end;
};

namespace expert_order {

enum Operand { routes, out };
enum Constant { has_routes };

// The first tile of an expert before which there are `experts` others with `slots` slots in all: no more tiles than
// that can come before it.
constexpr uint32_t first_tile(uint32_t experts, uint32_t slots) {
    return slots / product_tile::kRows + experts;
}

#ifndef __METAL_VERSION__
// u32 values of out that suffice for `rows` rows.
constexpr uint32_t words(uint32_t experts, uint32_t slots, uint32_t rows) {
    return rows * slots + first_tile(experts, rows * slots) * sizeof(ExpertTile) / sizeof(uint32_t);
}

inline constexpr ParamField fields[] = {{"experts", FieldType::u32, offsetof(ExpertOrder, experts)},
                                        {"slots", FieldType::u32, offsetof(ExpertOrder, slots)}};
inline constexpr OperandInfo operands[] = {{"routes", Access::read, true}, {"out", Access::write}};
inline constexpr OpSignature signature{"expert_order", sizeof(ExpertOrder), fields, operands};

// A simdgroup per expert.
inline constexpr MetalDispatch metal_dispatch(const ExpertOrder& params, const LaunchSizes&) {
    return {.x = params.experts};
}
#endif

}  // namespace expert_order

}  // namespace ferrule
