// kv_append: writes one step's keys and values into a layer's cache (kv_cache.h).
// k: f32 [rows, kv_heads * head_dim]; v: f32 [rows, kv_heads * v_head_dim], absent where v_head_dim is 0; slots: i32
// [rows], negative = skip.
#pragma once
#include "kv_cache.h"
#include "metal_dispatch.h"
#include "signature.h"

namespace ferrule {

struct KvAppend {
    uint32_t kv_heads;
    uint32_t head_dim;
    uint32_t v_head_dim;
};

namespace kv_append {

enum Operand { k, v, slots, cache };
enum Constant { has_v };

#ifndef __METAL_VERSION__
inline constexpr ParamField fields[] = {{"kv_heads", FieldType::u32, offsetof(KvAppend, kv_heads)},
                                        {"head_dim", FieldType::u32, offsetof(KvAppend, head_dim)},
                                        {"v_head_dim", FieldType::u32, offsetof(KvAppend, v_head_dim)}};
inline constexpr OperandInfo operands[] = {
    {"k", Access::read}, {"v", Access::read, true}, {"slots", Access::read}, {"cache", Access::read_write}};
inline constexpr OpSignature signature{"kv_append", sizeof(KvAppend), fields, operands};

// A thread per value, groups filled up.
inline constexpr MetalDispatch metal_dispatch(const KvAppend& params, const LaunchSizes& sizes) {
    const uint32_t groups = cache_groups(params.head_dim) + cache_groups(params.v_head_dim);
    return elementwise_dispatch(params.kv_heads * groups * kCacheGroup, sizes);
}
#endif

}  // namespace kv_append

}  // namespace ferrule
