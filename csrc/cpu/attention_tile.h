// Attention of a tile: some rows of one sequence times some heads that share a KV head, block by block of the cache.
//
// Per block: scores of groups of up to kGroup queries times 64 positions (lanes = positions, summed over head_dim in
// order); the softmax weights of each query against its running maximum; weights times V (lanes = dims, summed over
// positions in order). No sum of a query depends on which other queries share its tile or group.
//
// Positions that a query does not see never enter its sums, not even times zero: the cache may hold anything there.
#pragma once
#include <type_traits>

#include "../params/attention.h"
#include "attention_products.h"
#include "kernel.h"
#include "simd/math.h"

namespace ferrule::cpu::FERRULE_ISA {

inline constexpr uint32_t kBlockVectors = kCacheBlock / kLanes;
inline constexpr uint32_t kTileQueries = 64;
inline constexpr float kInfinity = __builtin_inff();

constexpr uint32_t padded(uint32_t width) {
    return (width + kLanes - 1) / kLanes * kLanes;
}

struct Tile {
    Span span;
    Range rows;   // of the span
    Range heads;  // of the model
};

// What a tile keeps from block to block, in floats; every part is a multiple of a vector.
struct TileScratch {
    float* q;        // [kTileQueries][key_dim], times the scale, or in pairs of bfloat16, half as long
    float* weights;  // [kTileQueries][64]: scores, then their exponentials, or pairs of them in the first half
    float* out;      // [kTileQueries][padded(v_head_dim)]: not yet divided by the sum
    float* sums;     // [kTileQueries][16]: the softmax's denominator, lane by lane
    float* rescale;  // [kTileQueries][16]: what the block's new maximum does to earlier sums, in every lane
    float* maximum;  // [kTileQueries]: the running maximum
    float* end;

    static constexpr size_t floats(uint32_t key_dim, uint32_t v_head_dim) {
        return kTileQueries * (key_dim + kCacheBlock + padded(v_head_dim) + 2 * kLanes + 1);
    }

    TileScratch(uint32_t key_dim, uint32_t v_head_dim, float* memory) : q(memory) {
        weights = q + kTileQueries * key_dim;
        out = weights + kTileQueries * kCacheBlock;
        sums = out + kTileQueries * padded(v_head_dim);
        rescale = sums + kTileQueries * kLanes;
        maximum = rescale + kTileQueries * kLanes;
        end = maximum + kTileQueries;
    }

    // What is left of it for other tiles beside one of so many queries.
    TileScratch after(uint32_t queries, uint32_t key_dim, uint32_t v_head_dim) const {
        TileScratch rest = *this;
        rest.q += queries * key_dim;
        rest.weights += queries * kCacheBlock;
        rest.out += queries * padded(v_head_dim);
        rest.sums += queries * kLanes;
        rest.rescale += queries * kLanes;
        rest.maximum += queries;
        return rest;
    }
};

// `start`, then `add` for every block that any of the tile's rows sees, then `finish`; in between the object may be
// made anew over the same scratch. Factor: see attention_products.h.
template <class Factor = float>
class TileAttention {
    static constexpr bool kPairs = std::is_same_v<Factor, Pair>;

  public:
    // slopes, sinks, selected: null where absent.
    TileAttention(const Attention& params, uint32_t key_dim, const Tile& tile, const TileScratch& scratch,
                  const float* slopes, const float* sinks, const float* selected)
        : params_(params),
          tile_(tile),
          scratch_(scratch),
          slopes_(slopes),
          sinks_(sinks),
          selected_(selected),
          key_dim_(key_dim),
          n_heads_(tile.heads.end - tile.heads.begin),
          n_queries_((tile.rows.end - tile.rows.begin) * n_heads_) {
        for (uint32_t i = 0; i < n_queries_; ++i) position_[i] = first_position() + i / n_heads_;
    }

    const Tile& tile() const { return tile_; }
    uint32_t queries() const { return n_queries_; }

    // The positions that any row of the tile sees.
    Range seen() const {
        return {visible(first_position()).begin, first_position() + tile_.rows.end - tile_.rows.begin};
    }

    // A query's first values are in q, its last `rotated` in q_rotated.
    void start(const float* q, const float* q_rotated, uint32_t rotated) {
        const uint32_t plain = key_dim_ - rotated;
        for (uint32_t i = 0; i < n_queries_; ++i) {
            Factor* scaled = factors(scratch_.q) + size_t{i} * key_steps();
            scale_query(q + row_head(i) * plain, plain, scaled);
            if (rotated > 0) scale_query(q_rotated + row_head(i) * rotated, rotated, scaled + plain);
            scratch_.maximum[i] = -kInfinity;
            simd::store(scratch_.sums + i * kLanes, simd::zero_f32());
            for (uint32_t d = 0; d < out_stride(); d += kLanes)
                simd::store(scratch_.out + i * out_stride() + d, simd::zero_f32());
        }
    }

    // keys: [key_dim][64]; values(): [64][v_head_dim], read up to a vector beyond its end where v_head_dim is no
    // multiple of a vector. It is called when the keys are no longer needed. Pairs: see rounded_cache.h.
    template <class K, class Values>
    void add(uint32_t block, const K* keys, Values values) {
        scores(keys);
        for (uint32_t i = 0; i < n_queries_; ++i) {
            seen_[i] = visible_in_block(i, block);
            if (selected_ != nullptr && i % n_heads_ == 0) find_selected(i, block);
            if (selected_ != nullptr && !any_selected_) seen_[i].end = seen_[i].begin;
            if (seen_[i].begin < seen_[i].end) softmax(i, block);
        }
        add_weighted(values());
    }

    void finish(float* out) {
        for (uint32_t i = 0; i < n_queries_; ++i) {
            f32x16 sum = simd::set1(reduce_add(simd::load(scratch_.sums + i * kLanes)));
            // A sink so large that this overflows leaves nothing of the values, which is right.
            if (sinks_ != nullptr) sum += exp(simd::set1(sinks_[head(i)] - scratch_.maximum[i]));
            const f32x16 factor = simd::set1(1.0f) / sum;
            float* target = out + row_head(i) * params_.v_head_dim;
            for (uint32_t d = 0; d < params_.v_head_dim; d += kLanes) {
                const uint32_t n = params_.v_head_dim - d < kLanes ? params_.v_head_dim - d : kLanes;
                simd::store_partial(target + d, simd::load(scratch_.out + i * out_stride() + d) * factor, n);
            }
        }
    }

  private:
    // Queries are numbered row by row.
    uint32_t first_position() const { return tile_.span.position_begin + tile_.rows.begin; }
    uint32_t head(uint32_t query) const { return tile_.heads.begin + query % n_heads_; }
    size_t row_head(uint32_t query) const {
        return size_t{tile_.span.row_begin + tile_.rows.begin + query / n_heads_} * params_.heads + head(query);
    }
    uint32_t out_stride() const { return padded(params_.v_head_dim); }
    uint32_t key_steps() const { return kPairs ? (key_dim_ + 1) / 2 : key_dim_; }
    static Factor* factors(float* p) { return reinterpret_cast<Factor*>(p); }

    // The positions that a query at `position` sees.
    Range visible(uint32_t position) const {
        const uint32_t end = position + 1;
        uint32_t begin = params_.window > 0 && end > params_.window ? end - params_.window : 0;
        if (params_.chunk > 0 && position / params_.chunk * params_.chunk > begin) {
            begin = position / params_.chunk * params_.chunk;
        }
        return {begin, end};
    }
    // The same, of a block and relative to it.
    Range visible_in_block(uint32_t query, uint32_t block) const {
        const auto [begin, end] = visible(position_[query]);
        const uint32_t base = block * kCacheBlock;
        const auto inside = [base](uint32_t p) {
            return p <= base ? 0 : p - base < kCacheBlock ? p - base : kCacheBlock;
        };
        return {inside(begin), inside(end)};
    }

    // Of pairs, whole vectors are stored: what goes too far is overwritten by the next query.
    void scale_query(const float* q, uint32_t width, Pair* scaled) const {
        const f32x16 scale = simd::set1(params_.scale);
        const auto part = [&](uint32_t d) {
            const uint32_t n = width <= d ? 0 : width - d < kLanes ? width - d : kLanes;
            return n > 0 ? simd::load_partial(q + d, n) * scale : simd::zero_f32();
        };
        for (uint32_t d = 0; d < width; d += 2 * kLanes)
            simd::store(scaled + d / 2, to_bf16(part(d), part(d + kLanes)));
    }
    void scale_query(const float* q, uint32_t width, float* scaled) const {
        const f32x16 scale = simd::set1(params_.scale);
        for (uint32_t d = 0; d < width; d += kLanes) {
            const uint32_t n = width - d < kLanes ? width - d : kLanes;
            simd::store_partial(scaled + d, simd::load_partial(q + d, n) * scale, n);
        }
    }

    template <class B>
    void scores(const B* keys) {
        for (uint32_t i = 0; i < n_queries_; i += kGroup) {
            with_group_size(group_size(i), [&]<uint32_t n>() {
                score_group<n>(factors(scratch_.q) + size_t{i} * key_steps(), key_steps(), keys,
                               scratch_.weights + i * kCacheBlock);
            });
        }
    }

    uint32_t group_size(uint32_t first) const { return n_queries_ - first < kGroup ? n_queries_ - first : kGroup; }

    // What is added to the scores of a row's queries: 0 for positions of the block that are selected, else -infinity.
    void find_selected(uint32_t query, uint32_t block) {
        const size_t row = tile_.span.row_begin + tile_.rows.begin + query / n_heads_;
        const float* positions = selected_ + row * params_.top;
        for (float& hidden : hidden_) hidden = -kInfinity;
        any_selected_ = false;
        const float begin = static_cast<float>(block * kCacheBlock), end = begin + kCacheBlock;
        for (uint32_t i = 0; i < params_.top; ++i) {
            if (positions[i] < begin || positions[i] >= end) continue;
            hidden_[static_cast<uint32_t>(positions[i] - begin)] = 0;
            any_selected_ = true;
        }
    }

    // Turns a query's scores of a block into exponentials against its running maximum.
    void softmax(uint32_t query, uint32_t block) {
        alignas(64) static constexpr float kLaneNumbers[kLanes] = {0, 1, 2,  3,  4,  5,  6,  7,
                                                                   8, 9, 10, 11, 12, 13, 14, 15};
        float* weights = scratch_.weights + query * kCacheBlock;
        const Range seen = seen_[query];
        const bool masked = seen.end - seen.begin < kCacheBlock;
        f32x16 s[kBlockVectors];
        for (uint32_t v = 0; v < kBlockVectors; ++v) {
            const f32x16 offset = simd::load(kLaneNumbers) + simd::set1(static_cast<float>(v * kLanes));
            s[v] = simd::load(weights + v * kLanes);
            if (params_.softcap > 0) {
                s[v] = simd::set1(params_.softcap) * tanh(s[v] * simd::set1(1 / params_.softcap));
            }
            if (slopes_ != nullptr) {
                const auto base = static_cast<float>(static_cast<int32_t>(block * kCacheBlock - position_[query]));
                s[v] = fma(simd::set1(slopes_[head(query)]), offset + simd::set1(base), s[v]);
            }
            if (selected_ != nullptr) s[v] = s[v] + simd::load(hidden_ + v * kLanes);
            if (masked) {
                const f32x16 never = simd::set1(-kInfinity);
                s[v] = select(less(offset, simd::set1(static_cast<float>(seen.begin))), never, s[v]);
                s[v] = select(less(offset, simd::set1(static_cast<float>(seen.end))), s[v], never);
            }
        }
        const float block_maximum = reduce_max(max(max(s[0], s[1]), max(s[2], s[3])));
        f32x16 rescale = simd::set1(1.0f);
        if (block_maximum > scratch_.maximum[query]) {
            rescale = exp(simd::set1(scratch_.maximum[query] - block_maximum));
            scratch_.maximum[query] = block_maximum;
        }
        for (uint32_t v = 0; v < kBlockVectors; ++v) s[v] = exp(s[v] - simd::set1(scratch_.maximum[query]));
        store_weights(s, factors(weights));
        float* sums = scratch_.sums + query * kLanes;
        simd::store(sums, fma(simd::load(sums), rescale, (s[0] + s[1]) + (s[2] + s[3])));
        simd::store(scratch_.rescale + query * kLanes, rescale);
    }

    static void store_weights(f32x16 (&s)[kBlockVectors], float* weights) {
        for (uint32_t v = 0; v < kBlockVectors; ++v) simd::store(weights + v * kLanes, s[v]);
    }
    // Leaves in s what the pairs stand for, in another order, so that they are divided by their own sum.
    static void store_weights(f32x16 (&s)[kBlockVectors], Pair* weights) {
        for (uint32_t v = 0; v < kBlockVectors; v += 2) {
            const simd::i32x16 pairs = to_bf16(s[v], s[v + 1]);
            simd::store(weights + v / 2 * kLanes, pairs);
            s[v] = as_f32(pairs << 16);
            s[v + 1] = as_f32(pairs & simd::set1(static_cast<int32_t>(0xffff0000)));
        }
    }

    template <class B>
    void add_weighted(const B* values) {
        for (uint32_t i = 0; i < n_queries_; i += kGroup) {
            const uint32_t n_queries = group_size(i);
            bool alike = true;
            for (uint32_t j = i; j < i + n_queries; ++j)
                alike = alike && seen_[j].begin == seen_[i].begin && seen_[j].end == seen_[i].end;
            if (alike) {
                with_group_size(n_queries, [&]<uint32_t n>() { add_weighted<n>(values, i); });
            } else {
                for (uint32_t j = i; j < i + n_queries; ++j) add_weighted<1>(values, j);
            }
        }
    }

    template <uint32_t n, class B>
    void add_weighted(const B* values, uint32_t query) {
        if (seen_[query].begin >= seen_[query].end) return;
        add_values<n>(factors(scratch_.weights + query * kCacheBlock), scratch_.rescale + query * kLanes, values,
                      kPairs ? out_stride() : params_.v_head_dim, seen_[query], scratch_.out + query * out_stride(),
                      out_stride());
    }

    const Attention& params_;
    const Tile tile_;
    const TileScratch scratch_;
    const float* slopes_;
    const float* sinks_;
    const float* selected_;
    const uint32_t key_dim_;
    const uint32_t n_heads_;
    const uint32_t n_queries_;
    uint32_t position_[kTileQueries];
    Range seen_[kTileQueries];  // in the current block
    alignas(64) float hidden_[kCacheBlock];
    bool any_selected_ = true;
};

}  // namespace ferrule::cpu::FERRULE_ISA
