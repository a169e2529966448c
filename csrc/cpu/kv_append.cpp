// kv_append: one step's keys and values into a layer's cache, rounded to the cache's type. One work item per row.
#include "../params/kv_append.h"

#include "kernel.h"
#include "quantized_cache.h"
#include "rounded_cache.h"

namespace ferrule::cpu::FERRULE_ISA {

namespace {

uint32_t items(const KernelArgs& args) {
    return args.rows;
}

template <class T>
void run(const KernelArgs& args, uint32_t begin, uint32_t end, std::byte*) {
    const KvAppend& params = args.as<KvAppend>();
    const CacheLayer<T> cache{args.operand<T>(kv_append::cache), params.kv_heads, params.head_dim, params.v_head_dim};
    const int32_t* slots = args.operand<const int32_t>(kv_append::slots);
    // Heads outside: consecutive rows then write to the same lines of the transposed keys.
    for (uint32_t head = 0; head < params.kv_heads; ++head) {
        for (uint32_t row = begin; row < end; ++row) {
            if (slots[row] < 0) continue;
            const size_t row_head = size_t{row} * params.kv_heads + head;
            cache.append_key(slots[row], head, args.operand<const float>(kv_append::k) + row_head * params.head_dim);
            if (params.v_head_dim > 0) {
                cache.append_value(slots[row], head,
                                   args.operand<const float>(kv_append::v) + row_head * params.v_head_dim);
            }
        }
    }
}

constexpr Kernel kKernels[] = {{"kv_append_f32", &kv_append::signature, items, nullptr, run<float>},
                               {"kv_append_f16", &kv_append::signature, items, nullptr, run<f16>},
                               {"kv_append_q8_0", &kv_append::signature, items, nullptr, run<int8_t>},
                               {"kv_append_bf16", &kv_append::signature, items, nullptr, run<Pair>}};

}  // namespace

std::span<const Kernel> kv_append_kernels() {
    return kKernels;
}

}  // namespace ferrule::cpu::FERRULE_ISA
