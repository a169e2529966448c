// embedding: out[r] = scale * row tokens[r] of the table, dequantised, and, by Metal's kernels, where a norm follows,
// next = rms_norm(out, next_weight), see rms_norm.h.
// tokens: i32 [rows]; table: [n, k] in a weight format (the kernel's suffix); out, next: f32 [rows, k]; next_weight:
// f32 [k], absent: 1.
#pragma once
#include "metal_dispatch.h"
#include "signature.h"

namespace ferrule {

struct Embedding {
    uint32_t k;
    uint32_t n;
    float scale;
    float eps;
    float weight_offset;
};

namespace embedding {

enum Operand { tokens, table, out, next_weight, next };
enum Constant { has_next_weight, has_next };

FERRULE_CONSTANT uint32_t kValuesPerThread = 16;

#ifndef __METAL_VERSION__
inline constexpr ParamField fields[] = {{"k", FieldType::u32, offsetof(Embedding, k)},
                                        {"n", FieldType::u32, offsetof(Embedding, n)},
                                        {"scale", FieldType::f32, offsetof(Embedding, scale)},
                                        {"eps", FieldType::f32, offsetof(Embedding, eps)},
                                        {"weight_offset", FieldType::f32, offsetof(Embedding, weight_offset)}};
inline constexpr OperandInfo operands[] = {{"tokens", Access::read},
                                           {"table", Access::read},
                                           {"out", Access::write},
                                           {"next_weight", Access::read, true},
                                           {"next", Access::write, true}};
inline constexpr OpSignature signature{"embedding", sizeof(Embedding), fields, operands};

// A threadgroup per row.
inline constexpr MetalDispatch metal_dispatch(const Embedding& params, const LaunchSizes& sizes) {
    const uint32_t simdgroups = std::clamp(ceil_div(params.k, kValuesPerThread * kSimdWidth), 1u, 32u);
    return {.y = sizes.rows, .threads = simdgroups * kSimdWidth};
}
#endif

}  // namespace embedding

}  // namespace ferrule
