// How expert_linear (params/expert_linear.h) is cut into work: what its kernels of float and of quantised weights
// share.
//
// Work is made of blocks of weight rows of one live expert, times all row slots that chose it. Which experts are live
// is only known when a step runs: work items are counted for as many as may be, and each is its share of the blocks
// that there are, so that threads get equal shares of work however few experts are live. Every run sorts the slots by
// expert anew: a counting sort, cheap beside the products of even one block.
#pragma once
#include <span>

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

struct Slot {
    uint32_t row;
    uint32_t slot;
};

// Slots of all rows in the order of their experts.
class SortedSlots {
  public:
    static size_t scratch_bytes(const KernelArgs& args) {
        const ExpertLinear& params = args.as<ExpertLinear>();
        return (2 * size_t{params.experts} + 1) * sizeof(uint32_t) + size_t{args.rows} * params.slots * sizeof(Slot);
    }

    SortedSlots(const KernelArgs& args, std::byte* scratch)
        : params_(args.as<ExpertLinear>()),
          routes_(args.operand<const float>(expert_linear::routes)),
          ends_(reinterpret_cast<uint32_t*>(scratch)),
          live_(ends_ + params_.experts + 1),
          slots_(reinterpret_cast<Slot*>(live_ + params_.experts)) {
        const auto each_slot = [&](const auto& f) {
            for (uint32_t row = 0; row < args.rows; ++row)
                for (uint32_t i = 0; i < params_.slots; ++i) f(expert_of({row, i}), Slot{row, i});
        };
        uint32_t* next = ends_ + 1;  // of expert e: first its count, then where its next slot goes, at last its end
        for (uint32_t e = 0; e <= params_.experts; ++e) ends_[e] = 0;
        each_slot([&](uint32_t expert, Slot) { ++next[expert]; });
        uint32_t begin = 0;
        for (uint32_t e = 0; e < params_.experts; ++e) {
            if (next[e] > 0) live_[n_live_++] = e;
            begin += next[e];
            next[e] = begin - next[e];
        }
        each_slot([&](uint32_t expert, Slot slot) { slots_[next[expert]++] = slot; });
    }

    uint32_t n_live() const { return n_live_; }
    uint32_t live(uint32_t i) const { return live_[i]; }
    std::span<const Slot> of(uint32_t expert) const { return {slots_ + ends_[expert], slots_ + ends_[expert + 1]}; }

  private:
    uint32_t expert_of(Slot slot) const {
        if (routes_ == nullptr) return slot.slot;
        return static_cast<uint32_t>(routes_[size_t{slot.row} * 2 * params_.slots + slot.slot]);
    }

    const ExpertLinear& params_;
    const float* routes_;
    uint32_t* ends_;  // [experts + 1]: of expert e - 1
    uint32_t* live_;  // [n_live_], ascending
    Slot* slots_;
    uint32_t n_live_ = 0;
};

// The slots of one expert as the activation rows of a product.
class ExpertRows final : public ActivationRows {
  public:
    ExpertRows(const KernelArgs& args, size_t row_bytes, std::span<const Slot> chosen, uint32_t expert)
        : ActivationRows(static_cast<uint32_t>(chosen.size())),
          args_(args),
          params_(args.as<ExpertLinear>()),
          row_bytes_(row_bytes),
          chosen_(chosen),
          bias_(args.operand<const float>(expert_linear::bias)) {
        if (bias_ != nullptr) bias_ += size_t{expert} * params_.n;
    }

    const uint8_t* at(size_t t) const override {
        const size_t part = params_.x_slots == 1 ? chosen_[t].row : number(t);
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
    size_t number(size_t t) const { return size_t{chosen_[t].row} * params_.slots + chosen_[t].slot; }
    float* out(size_t t) const { return args_.operand<float>(expert_linear::out) + number(t) * params_.n; }
    float weight(size_t t) const {
        const auto [row, slot] = chosen_[t];
        return args_.operand<const float>(expert_linear::routes)[(2 * size_t{row} + 1) * params_.slots + slot];
    }

    const KernelArgs& args_;
    const ExpertLinear& params_;
    size_t row_bytes_;  // of one part of x
    std::span<const Slot> chosen_;
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
