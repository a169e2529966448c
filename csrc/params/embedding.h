// embedding: out[r] = scale * row tokens[r] of the table, dequantised.
// tokens: i32 [rows]; table: [n, k] in a weight format (the kernel's suffix); out: f32 [rows, k].
#pragma once
#include "metal_dispatch.h"
#include "signature.h"

namespace ferrule {

struct Embedding {
    uint32_t k;
    uint32_t n;
    float scale;
};

namespace embedding {

enum Operand { tokens, table, out };

FERRULE_CONSTANT uint32_t kValuesPerThread = 16;

#ifndef __METAL_VERSION__
inline constexpr ParamField fields[] = {{"k", FieldType::u32, offsetof(Embedding, k)},
                                        {"n", FieldType::u32, offsetof(Embedding, n)},
                                        {"scale", FieldType::f32, offsetof(Embedding, scale)}};
inline constexpr OperandInfo operands[] = {{"tokens", Access::read}, {"table", Access::read}, {"out", Access::write}};
inline constexpr OpSignature signature{"embedding", sizeof(Embedding), fields, operands};

inline constexpr MetalDispatch metal_dispatch(const Embedding& params, const LaunchSizes& sizes) {
    return elementwise_dispatch(ceil_div(params.k, kValuesPerThread), sizes);
}
#endif

}  // namespace embedding

}  // namespace ferrule
