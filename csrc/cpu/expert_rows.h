// How expert_linear (params/expert_linear.h) is cut into work: what its kernels of float and of quantised weights
// share.
//
// Work is made of blocks of weight rows of one live expert, times all row slots that chose it. Which experts are live
// is only known when a step runs: work items are counted for as many as may be, and each is its share of the blocks
// that there are, so that threads get equal shares of work however few experts are live. Every run sorts the slots by
// expert anew: a counting sort, cheap beside the products of even one block.
#pragma once
#include "../params/expert_linear.h"
#include "activation_rows.h"

namespace ferrule::cpu::FERRULE_ISA::experts {

inline constexpr uint32_t kBlockRows = 16 * simd::kPanelVectors;  // weight rows of a block

inline uint32_t blocks(const ExpertLinear& params) {
    return (params.n + kBlockRows - 1) / kBlockRows;
}

inline uint32_t items(const KernelArgs& args) {
    const ExpertLinear& params = args.as<ExpertLinear>();
    return min_u32(params.experts, args.rows * params.slots) * blocks(params);
}

struct Slots {
    const uint32_t* first;
    uint32_t count;
};

// Slots of all rows, numbered row * slots + slot, in the order of their experts.
class SortedSlots {
  public:
    static size_t scratch_bytes(const KernelArgs& args) {
        const ExpertLinear& params = args.as<ExpertLinear>();
        return (2 * size_t{params.experts} + 1 + size_t{args.rows} * params.slots) * sizeof(uint32_t);
    }

    SortedSlots(const KernelArgs& args, std::byte* scratch)
        : params_(args.as<ExpertLinear>()),
          routes_(args.operand<const float>(expert_linear::routes)),
          ends_(reinterpret_cast<uint32_t*>(scratch)),
          live_(ends_ + params_.experts + 1),
          slots_(live_ + params_.experts) {
        const uint32_t count = args.rows * params_.slots;
        uint32_t* next = ends_ + 1;  // of expert e: first its count, then where its next slot goes, at last its end
        for (uint32_t e = 0; e <= params_.experts; ++e) ends_[e] = 0;
        for (uint32_t slot = 0; slot < count; ++slot) ++next[expert_of(slot)];
        uint32_t begin = 0;
        for (uint32_t e = 0; e < params_.experts; ++e) {
            if (next[e] > 0) live_[n_live_++] = e;
            begin += next[e];
            next[e] = begin - next[e];
        }
        for (uint32_t slot = 0; slot < count; ++slot) slots_[next[expert_of(slot)]++] = slot;
    }

    uint32_t n_live() const { return n_live_; }
    uint32_t live(uint32_t i) const { return live_[i]; }
    Slots of(uint32_t expert) const { return {slots_ + ends_[expert], ends_[expert + 1] - ends_[expert]}; }

  private:
    uint32_t expert_of(uint32_t slot) const {
        const uint32_t row = slot / params_.slots, i = slot % params_.slots;
        return routes_ == nullptr ? i : static_cast<uint32_t>(routes_[size_t{row} * 2 * params_.slots + i]);
    }

    const ExpertLinear& params_;
    const float* routes_;
    uint32_t* ends_;  // [experts + 1]: of expert e - 1
    uint32_t* live_;  // [n_live_], ascending
    uint32_t* slots_;
    uint32_t n_live_ = 0;
};

// The slots of one expert as the activation rows of a product.
class ExpertRows final : public ActivationRows {
  public:
    ExpertRows(const KernelArgs& args, size_t row_bytes, const Slots& chosen, uint32_t expert)
        : ActivationRows(chosen.count),
          args_(args),
          params_(args.as<ExpertLinear>()),
          row_bytes_(row_bytes),
          slots_(chosen.first),
          bias_(args.operand<const float>(expert_linear::bias)) {
        if (bias_ != nullptr) bias_ += size_t{expert} * params_.n;
    }

    const uint8_t* at(size_t t) const override {
        const size_t part = params_.x_slots == 1 ? slots_[t] / params_.slots : slots_[t];
        return args_.operand<const uint8_t>(expert_linear::x) + part * row_bytes_;
    }

    void finish(size_t t, uint32_t j, float sum) const override {
        float y = sum;
        if (bias_ != nullptr) y += bias_[j];
        if (params_.weighted != 0) y *= weight(t);
        out(t)[j] = y;
    }
    void finish(size_t t, uint32_t j, uint32_t n, simd::f32x16 sums) const override {
        using namespace simd;
        f32x16 y = sums;
        if (bias_ != nullptr) y += load_partial(bias_ + j, n);
        if (params_.weighted != 0) y *= set1(weight(t));
        store_partial(out(t) + j, y, n);
    }

  private:
    float* out(size_t t) const { return args_.operand<float>(expert_linear::out) + size_t{slots_[t]} * params_.n; }
    float weight(size_t t) const {
        const size_t row = slots_[t] / params_.slots, i = slots_[t] % params_.slots;
        return args_.operand<const float>(expert_linear::routes)[(2 * row + 1) * params_.slots + i];
    }

    const KernelArgs& args_;
    const ExpertLinear& params_;
    size_t row_bytes_;  // of one part of x
    const uint32_t* slots_;
    const float* bias_;
};

// multiply(weight, rows, j_begin, j_end) for the live experts of items [begin, end), with all their weight rows of
// these.
template <class Multiply>
void for_each_expert(const KernelArgs& args, size_t row_bytes, uint32_t begin, uint32_t end, std::byte* scratch,
                     Multiply multiply) {
    const ExpertLinear& params = args.as<ExpertLinear>();
    const uint8_t* const* weights = args.operand<const uint8_t* const>(expert_linear::weight);
    const SortedSlots sorted(args, scratch);
    const uint32_t per_expert = blocks(params);
    const auto block_at = [&](uint32_t item) {
        return static_cast<uint32_t>(uint64_t{item} * sorted.n_live() * per_expert / items(args));
    };
    const uint32_t block_end = block_at(end);
    for (uint32_t block = block_at(begin); block < block_end;) {
        const uint32_t i = block / per_expert, first = i * per_expert, last = min_u32(block_end, first + per_expert);
        const ExpertRows rows(args, row_bytes, sorted.of(sorted.live(i)), sorted.live(i));
        multiply(weights[sorted.live(i)], rows, (block - first) * kBlockRows,
                 min_u32((last - first) * kBlockRows, params.n));
        block = last;
    }
}

}  // namespace ferrule::cpu::FERRULE_ISA::experts
