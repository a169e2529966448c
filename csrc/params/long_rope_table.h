// long_rope_table: as rope_table, with the frequencies `long` and long_scale where lengths[r] > threshold, else with
// those of `short` (Ding et al. 2024). positions, lengths: i32 [rows]; short, long: f32 [n]; out: f32 [rows, 2 * n].
#pragma once
#include "metal_dispatch.h"
#include "signature.h"

namespace ferrule {

struct LongRopeTable {
    uint32_t n;
    uint32_t threshold;
    float short_scale;
    float long_scale;
};

namespace long_rope_table {

enum Operand { positions, lengths, short_frequencies, long_frequencies, out };

#ifndef __METAL_VERSION__
inline constexpr ParamField fields[] = {{"n", FieldType::u32, offsetof(LongRopeTable, n)},
                                        {"threshold", FieldType::u32, offsetof(LongRopeTable, threshold)},
                                        {"short_scale", FieldType::f32, offsetof(LongRopeTable, short_scale)},
                                        {"long_scale", FieldType::f32, offsetof(LongRopeTable, long_scale)}};
inline constexpr OperandInfo operands[] = {{"positions", Access::read},
                                           {"lengths", Access::read},
                                           {"short_frequencies", Access::read},
                                           {"long_frequencies", Access::read},
                                           {"out", Access::write}};
inline constexpr OpSignature signature{"long_rope_table", sizeof(LongRopeTable), fields, operands};

inline constexpr MetalDispatch metal_dispatch(const LongRopeTable& params, const LaunchSizes& sizes) {
    return elementwise_dispatch(params.n, sizes);
}
#endif

}  // namespace long_rope_table

}  // namespace ferrule
