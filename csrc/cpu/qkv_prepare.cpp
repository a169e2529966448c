// qkv_prepare: limits, norms of heads of q, k and v, rotation of q and k, and kv_append, with the very functions of
// those kernels. A work item is one head of one row: first the query heads, row by row; then the KV heads, each with
// its key and its value, through the rows of a head first: consecutive rows write to the same lines of the transposed
// keys.
#include "../params/qkv_prepare.h"

#include "kernel.h"
#include "limit_values.h"
#include "quantized_cache.h"
#include "rms_norm_row.h"
#include "rope_head.h"
#include "rounded_cache.h"

namespace ferrule::cpu::FERRULE_ISA {

namespace {

class Prepare {
  public:
    explicit Prepare(const KernelArgs& args)
        : args_(args),
          params_(args.as<QkvPrepare>()),
          table_(args.operand<const float>(qkv_prepare::table)),
          slots_(args.operand<const int32_t>(qkv_prepare::slots)) {}

    void query(uint32_t row_head) const {
        float* q = args_.operand<float>(qkv_prepare::q) + size_t{row_head} * params_.head_dim;
        const float* weight = args_.operand<const float>(qkv_prepare::q_weight);
        limit(q, params_.head_dim, q);
        norm_and_rotate(q, params_.has_q_norm != 0, weight, row_head / params_.heads, q);
    }

    // buffer: one key or value
    template <class T>
    void key_value(const CacheLayer<T>& cache, uint32_t row, uint32_t kv_head, float* buffer) const {
        if (slots_[row] < 0) return;
        const size_t row_head = size_t{row} * params_.kv_heads + kv_head;
        const float* k = args_.operand<const float>(qkv_prepare::k) + row_head * params_.head_dim;
        const float* v = args_.operand<const float>(qkv_prepare::v) + row_head * params_.v_head_dim;
        const float* weight = args_.operand<const float>(qkv_prepare::k_weight);
        k = limit(k, params_.head_dim, buffer);
        k = norm_and_rotate(k, params_.has_k_norm != 0, weight, row, buffer);
        cache.append_key(slots_[row], kv_head, k);
        v = limit(v, params_.v_head_dim, buffer);
        v = norm(v, params_.has_v_norm != 0, nullptr, params_.v_head_dim, buffer);
        cache.append_value(slots_[row], kv_head, v);
    }

  private:
    // These return where the result is: x itself where nothing had to be done.
    const float* limit(const float* x, uint32_t width, float* out) const {
        if (params_.limit == 0) return x;
        limit_values(x, width, params_.limit, out);
        return out;
    }
    const float* norm(const float* x, bool has_norm, const float* weight, uint32_t width, float* out) const {
        if (!has_norm) return x;
        rms_norm_row(x, weight, width, params_.eps, params_.weight_offset, out);
        return out;
    }
    const float* rotate(const float* x, uint32_t row, float* out) const {
        if (table_ == nullptr) return x;
        const float* angles = table_ + size_t{row} * 2 * params_.n_pairs;
        rope_head(x, angles, params_.head_dim, params_.n_pairs, params_.pairing, out);
        return out;
    }

    const float* norm_and_rotate(const float* x, bool has_norm, const float* weight, uint32_t row, float* out) const {
        if (params_.norm_last) return norm(rotate(x, row, out), has_norm, weight, params_.head_dim, out);
        return rotate(norm(x, has_norm, weight, params_.head_dim, out), row, out);
    }

    const KernelArgs& args_;
    const QkvPrepare& params_;
    const float* table_;  // null: no rotation
    const int32_t* slots_;
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
    const Prepare prepare(args);
    const uint32_t n_queries = args.rows * params.heads;
    for (uint32_t item = begin; item < end; ++item) {
        if (item < n_queries) {
            prepare.query(item);
        } else {
            const uint32_t head_row = item - n_queries;
            prepare.key_value(cache, head_row % args.rows, head_row / args.rows, reinterpret_cast<float*>(scratch));
        }
    }
}

constexpr Kernel kKernels[] = {{"qkv_prepare_f32", &qkv_prepare::signature, items, scratch_bytes, run<float>},
                               {"qkv_prepare_f16", &qkv_prepare::signature, items, scratch_bytes, run<f16>},
                               {"qkv_prepare_q8_0", &qkv_prepare::signature, items, scratch_bytes, run<int8_t>},

                               {"qkv_prepare_bf16", &qkv_prepare::signature, items, scratch_bytes, run<Pair>}};

}  // namespace

std::span<const Kernel> qkv_prepare_kernels() {
    return kKernels;
}

}  // namespace ferrule::cpu::FERRULE_ISA
