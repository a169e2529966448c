// select_positions: the best positions of each row by an index cache. One work item per row, which takes the cache's
// blocks in order and keeps the best positions so far in a heap whose root is the worst of them.
#include "../params/select_positions.h"

#include "kernel.h"
#include "quantized_cache.h"

namespace ferrule::cpu::FERRULE_ISA {

namespace {

using simd::f32x16;

constexpr uint32_t kLanes = 16;

struct Scored {
    float score;
    uint32_t position;
};

// Of equal scores the higher position is worse.
bool worse(const Scored& a, const Scored& b) {
    return a.score < b.score || (a.score == b.score && a.position > b.position);
}

class Heap {
  public:
    Heap(Scored* memory, uint32_t capacity) : items_(memory), capacity_(capacity) {}

    void offer(const Scored& item) {
        if (size_ < capacity_) {
            rise(size_++, item);
        } else if (worse(items_[0], item)) {
            sink(item);
        }
    }

    uint32_t size() const { return size_; }
    uint32_t position(uint32_t i) const { return items_[i].position; }

  private:
    void rise(uint32_t i, const Scored& item) {
        for (; i > 0 && worse(item, items_[(i - 1) / 2]); i = (i - 1) / 2) items_[i] = items_[(i - 1) / 2];
        items_[i] = item;
    }
    // Puts `item` in the root's place.
    void sink(const Scored& item) {
        uint32_t i = 0;
        while (2 * i + 1 < size_) {
            uint32_t child = 2 * i + 1;
            if (child + 1 < size_ && worse(items_[child + 1], items_[child])) ++child;
            if (!worse(items_[child], item)) break;
            items_[i] = items_[child];
            i = child;
        }
        items_[i] = item;
    }

    Scored* items_;
    uint32_t capacity_;
    uint32_t size_ = 0;
};

uint32_t items(const KernelArgs& args) {
    return args.rows;
}

// The keys of one block in f32, then the heap.
size_t scratch_bytes(const KernelArgs& args) {
    const SelectPositions& params = args.as<SelectPositions>();
    return sizeof(float) * kCacheBlock * params.head_dim + sizeof(Scored) * params.top;
}

// Scores of a block's 64 positions.
void score_block(const SelectPositions& params, const float* q, const float* weights, const float* keys,
                 float* scores) {
    for (uint32_t first = 0; first < kCacheBlock; first += kLanes) {
        f32x16 total = simd::zero_f32();
        for (uint32_t h = 0; h < params.heads; ++h) {
            f32x16 product = simd::zero_f32();
            for (uint32_t d = 0; d < params.head_dim; ++d)
                product =
                    fma(simd::set1(q[h * params.head_dim + d]), simd::load(keys + d * kCacheBlock + first), product);
            product = max(simd::zero_f32(), product * simd::set1(params.scale));
            total = fma(simd::set1(weights[h]), product, total);
        }
        simd::store(scores + first, total);
    }
}

template <class T>
void select(const KernelArgs& args, const Span& span, uint32_t row, std::byte* scratch) {
    const SelectPositions& params = args.as<SelectPositions>();
    const CacheLayer<T> cache{args.operand<T>(select_positions::cache), 1, params.head_dim, 0};
    const int32_t* blocks = args.operand<const int32_t>(select_positions::block_table) + span.block_table_begin;
    const float* q = args.operand<const float>(select_positions::q) + size_t{row} * params.heads * params.head_dim;
    const float* weights = args.operand<const float>(select_positions::weights) + size_t{row} * params.heads;
    const uint32_t seen = span.position_begin + row - span.row_begin + 1;
    float* keys = reinterpret_cast<float*>(scratch);
    Heap best(reinterpret_cast<Scored*>(keys + size_t{kCacheBlock} * params.head_dim), params.top);
    for (uint32_t begin = 0; begin < seen; begin += kCacheBlock) {
        float scores[kCacheBlock];
        cache.widen_keys(static_cast<uint32_t>(blocks[begin / kCacheBlock]), 0, keys);
        score_block(params, q, weights, keys, scores);
        for (uint32_t p = 0; p < kCacheBlock && begin + p < seen; ++p) best.offer({scores[p], begin + p});
    }
    float* out = args.operand<float>(select_positions::out) + size_t{row} * params.top;
    for (uint32_t i = 0; i < params.top; ++i) out[i] = i < best.size() ? static_cast<float>(best.position(i)) : -1.0f;
}

template <class T>
void run(const KernelArgs& args, uint32_t begin, uint32_t end, std::byte* scratch) {
    const Span* span = args.operand<const Span>(select_positions::spans);
    for (uint32_t row = begin; row < end; ++row) {
        while (row >= span->row_begin + span->n_rows) ++span;
        select<T>(args, *span, row, scratch);
    }
}

constexpr Kernel kKernels[] = {
    {"select_positions_f32", &select_positions::signature, items, scratch_bytes, run<float>},
    {"select_positions_f16", &select_positions::signature, items, scratch_bytes, run<f16>},
    {"select_positions_q8_0", &select_positions::signature, items, scratch_bytes, run<int8_t>}};

}  // namespace

std::span<const Kernel> select_positions_kernels() {
    return kKernels;
}

}  // namespace ferrule::cpu::FERRULE_ISA
