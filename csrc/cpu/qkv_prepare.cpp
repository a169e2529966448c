// qkv_prepare: per-head norms of q, k and v, rotation of q and k, and kv_append, with the very functions of those
// kernels. A work item is one head of one row: a query head, or a KV head with its key and its value. Items run
// through the rows of a head first: consecutive rows write to the same lines of the transposed keys.
#include "../params/qkv_prepare.h"

#include "cache_layer.h"
#include "kernel.h"
#include "rms_norm_row.h"
#include "rope_head.h"

namespace ferrule::cpu::FERRULE_ISA {

namespace {

struct Prepare {
    const QkvPrepare& params;
    const float* table;  // of the row; null: no rotation

    // Returns where the result is: x itself where nothing had to be done.
    const float* norm(const float* x, bool has_norm, const float* weight, uint32_t width, float* out) const {
        if (!has_norm) return x;
        rms_norm_row(x, weight, width, params.eps, params.weight_offset, out);
        return out;
    }
    const float* rotate(const float* x, float* out) const {
        if (table == nullptr) return x;
        rope_head(x, table, params.head_dim, params.n_pairs, params.pairing, out);
        return out;
    }
};

uint32_t items(const KernelArgs& args) {
    const QkvPrepare& params = args.as<QkvPrepare>();
    return args.rows * (params.heads + params.kv_heads);
}

// One key or value.
size_t scratch_bytes(const KernelArgs& args) {
    const QkvPrepare& params = args.as<QkvPrepare>();
    return sizeof(float) * (params.head_dim > params.v_head_dim ? params.head_dim : params.v_head_dim);
}

template <class T>
void run(const KernelArgs& args, uint32_t begin, uint32_t end, std::byte* scratch) {
    const QkvPrepare& params = args.as<QkvPrepare>();
    const CacheLayer<T> cache{args.operand<T>(qkv_prepare::cache), params.kv_heads, params.head_dim, params.v_head_dim};
    const int32_t* slots = args.operand<const int32_t>(qkv_prepare::slots);
    const float* table = args.operand<const float>(qkv_prepare::table);
    float* buffer = reinterpret_cast<float*>(scratch);
    for (uint32_t item = begin; item < end; ++item) {
        const uint32_t row = item % args.rows, head = item / args.rows;
        const Prepare prepare{params, table == nullptr ? nullptr : table + size_t{row} * 2 * params.n_pairs};
        if (head < params.heads) {
            float* q = args.operand<float>(qkv_prepare::q) + (size_t{row} * params.heads + head) * params.head_dim;
            const float* weight = args.operand<const float>(qkv_prepare::q_weight);
            prepare.rotate(prepare.norm(q, params.has_q_norm != 0, weight, params.head_dim, q), q);
            continue;
        }
        if (slots[row] < 0) continue;
        const uint32_t kv_head = head - params.heads;
        const size_t row_head = size_t{row} * params.kv_heads + kv_head;
        const float* k = args.operand<const float>(qkv_prepare::k) + row_head * params.head_dim;
        const float* v = args.operand<const float>(qkv_prepare::v) + row_head * params.v_head_dim;
        const float* weight = args.operand<const float>(qkv_prepare::k_weight);
        k = prepare.rotate(prepare.norm(k, params.has_k_norm != 0, weight, params.head_dim, buffer), buffer);
        cache.append_key(slots[row], kv_head, k);
        v = prepare.norm(v, params.has_v_norm != 0, nullptr, params.v_head_dim, buffer);
        cache.append_value(slots[row], kv_head, v);
    }
}

constexpr Kernel kKernels[] = {{"qkv_prepare_f32", &qkv_prepare::signature, items, scratch_bytes, run<float>},
                               {"qkv_prepare_f16", &qkv_prepare::signature, items, scratch_bytes, run<f16>}};

}  // namespace

std::span<const Kernel> qkv_prepare_kernels() {
    return kKernels;
}

}  // namespace ferrule::cpu::FERRULE_ISA
