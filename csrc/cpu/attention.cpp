// attention (contract in ../params/attention.h) over a cache in f32 or f16.
//
// A work item is a tile: some rows of one sequence times some heads that share a KV head, so that each block of K and V
// is read, and converted from f16, once for all queries of the tile. A tile takes the cache's blocks of 64 positions in
// order. Per block: scores of groups of up to kGroup queries times 64 positions (lanes = positions, summed over
// head_dim in order); the softmax weights of each query against its running maximum; weights times V (lanes = dims,
// summed over positions in order). No sum of a query depends on which other queries share its tile or group.
//
// With `latent`, a block's keys are put together from its latents, transposed, and its rotated keys.
//
// Positions that a query does not see never enter its sums, not even times zero: the cache may hold anything there.
#include "../params/attention.h"

#include "attention_products.h"
#include "kernel.h"
#include "simd/math.h"

namespace ferrule::cpu::FERRULE_ISA {

namespace {

constexpr uint32_t kBlockVectors = kCacheBlock / kLanes;
constexpr uint32_t kTileQueries = 64;
constexpr uint32_t kMinTiles = 16;     // smaller tiles rather than fewer, so that every thread has work
constexpr uint32_t kOneRowHeads = 16;  // of one row: more tiles, but what a tile does to each block must pay
constexpr float kInfinity = __builtin_inff();

// --- how a launch is cut into tiles

struct TileShape {
    uint32_t rows;
    uint32_t heads;
    uint32_t parts;  // tiles over the heads of one KV head
};

TileShape tile_shape(const Attention& params, uint32_t rows) {
    const uint32_t group = params.heads / params.kv_heads;
    const uint32_t row_heads = rows * params.kv_heads;
    uint32_t heads = row_heads == 1 ? (group + 1) / 2 : group;  // even then two threads have work
    const uint32_t most_heads = row_heads == 1 ? kOneRowHeads : kTileQueries;
    if (heads > most_heads) heads = most_heads;
    uint32_t tile_rows = row_heads / kMinTiles;
    if (tile_rows > kTileQueries / heads) tile_rows = kTileQueries / heads;
    if (tile_rows > kGroup) tile_rows -= tile_rows % kGroup;
    return {tile_rows > 0 ? tile_rows : 1, heads, (group + heads - 1) / heads};
}

uint32_t row_tiles(const Span& span, const TileShape& shape) {
    return (span.n_rows + shape.rows - 1) / shape.rows;
}

uint32_t items(const KernelArgs& args) {
    const Attention& params = args.as<Attention>();
    const Span* spans = args.operand<const Span>(attention::spans);
    const TileShape shape = tile_shape(params, args.rows);
    uint32_t n = 0;
    for (uint32_t s = 0; s < args.dims.sequences; ++s) n += row_tiles(spans[s], shape) * params.kv_heads * shape.parts;
    return n;
}

struct Tile {
    Span span;
    uint32_t kv_head;
    Range rows;   // of the span
    Range heads;  // of the model
};

// The last rows of a span, which see most positions, come first: threads that take items in order then finish together.
Tile find_tile(const Attention& params, const Span* spans, const TileShape& shape, uint32_t item) {
    const uint32_t per_row_tile = params.kv_heads * shape.parts;
    while (item >= row_tiles(*spans, shape) * per_row_tile) item -= row_tiles(*spans++, shape) * per_row_tile;
    const uint32_t row_tile = row_tiles(*spans, shape) - 1 - item / per_row_tile;
    const uint32_t kv_head = item % per_row_tile / shape.parts, part = item % shape.parts;
    const uint32_t group = params.heads / params.kv_heads;
    const uint32_t row_begin = row_tile * shape.rows, row_end = row_begin + shape.rows;
    const uint32_t head_begin = part * shape.heads, head_end = head_begin + shape.heads;
    return {*spans,
            kv_head,
            {row_begin, row_end < spans->n_rows ? row_end : spans->n_rows},
            {kv_head * group + head_begin, kv_head * group + (head_end < group ? head_end : group)}};
}

// --- one tile

constexpr uint32_t padded(uint32_t width) {
    return (width + kLanes - 1) / kLanes * kLanes;
}

// Width of a query.
constexpr uint32_t key_dim(const Attention& params) {
    return params.latent != 0 ? params.v_head_dim + params.head_dim : params.head_dim;
}

// A thread's memory, in floats; every part is a multiple of a vector.
struct Scratch {
    float* q;        // [kTileQueries][key_dim], times the scale
    float* weights;  // [kTileQueries][64]: scores, then their exponentials
    float* out;      // [kTileQueries][padded(v_head_dim)]: not yet divided by the sum
    float* sums;     // [kTileQueries][16]: the softmax's denominator, lane by lane
    float* rescale;  // [kTileQueries][16]: what the block's new maximum does to earlier sums, in every lane
    float* block;    // K or V of one block in f32, and one vector beyond
    float* keys;     // [key_dim][64] of one block, where they are put together from latents

    static size_t floats(const Attention& params) {
        return kTileQueries * (key_dim(params) + kCacheBlock + padded(params.v_head_dim) + 2 * kLanes) +
               block_floats(params) + (params.latent != 0 ? kCacheBlock * key_dim(params) : 0);
    }

    static size_t block_floats(const Attention& params) {
        const size_t widest = params.head_dim > params.v_head_dim ? params.head_dim : params.v_head_dim;
        return kCacheBlock * widest + kLanes;
    }

    Scratch(const Attention& params, std::byte* memory) : q(reinterpret_cast<float*>(memory)) {
        weights = q + kTileQueries * key_dim(params);
        out = weights + kTileQueries * kCacheBlock;
        sums = out + kTileQueries * padded(params.v_head_dim);
        rescale = sums + kTileQueries * kLanes;
        block = rescale + kTileQueries * kLanes;
        keys = block + block_floats(params);
    }
};

template <class T>
class TileAttention {
  public:
    TileAttention(const KernelArgs& args, const Tile& tile, const Scratch& scratch)
        : params_(args.as<Attention>()),
          tile_(tile),
          scratch_(scratch),
          cache_{args.operand<T>(attention::cache), params_.kv_heads, params_.head_dim, params_.v_head_dim},
          blocks_(args.operand<const int32_t>(attention::block_table) + tile.span.block_table_begin),
          slopes_(args.operand<const float>(attention::slopes)),
          sinks_(args.operand<const float>(attention::sinks)),
          selected_(args.operand<const float>(attention::selected)),
          key_dim_(key_dim(params_)),
          n_heads_(tile.heads.end - tile.heads.begin),
          n_queries_((tile.rows.end - tile.rows.begin) * n_heads_) {}

    void run(const float* q, const float* q_rotated, float* out) {
        start(q, q_rotated);
        const Range seen = {visible(first_position()).begin, first_position() + (n_queries_ - 1) / n_heads_ + 1};
        for (uint32_t block = seen.begin / kCacheBlock; block * kCacheBlock < seen.end; ++block) add_block(block);
        finish(out);
    }

  private:
    // Queries are numbered row by row.
    uint32_t first_position() const { return tile_.span.position_begin + tile_.rows.begin; }
    uint32_t head(uint32_t query) const { return tile_.heads.begin + query % n_heads_; }
    size_t row_head(uint32_t query) const {
        return size_t{tile_.span.row_begin + tile_.rows.begin + query / n_heads_} * params_.heads + head(query);
    }
    uint32_t out_stride() const { return padded(params_.v_head_dim); }

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

    void start(const float* q, const float* q_rotated) {
        for (uint32_t i = 0; i < n_queries_; ++i) {
            float* scaled = scratch_.q + size_t{i} * key_dim_;
            if (params_.latent != 0) {
                scale_query(q + row_head(i) * params_.v_head_dim, params_.v_head_dim, scaled);
                scale_query(q_rotated + row_head(i) * params_.head_dim, params_.head_dim, scaled + params_.v_head_dim);
            } else {
                scale_query(q + row_head(i) * params_.head_dim, params_.head_dim, scaled);
            }
            position_[i] = first_position() + i / n_heads_;
            maximum_[i] = -kInfinity;
            simd::store(scratch_.sums + i * kLanes, simd::zero_f32());
            for (uint32_t d = 0; d < out_stride(); d += kLanes)
                simd::store(scratch_.out + i * out_stride() + d, simd::zero_f32());
        }
    }

    void scale_query(const float* q, uint32_t width, float* scaled) const {
        const f32x16 scale = simd::set1(params_.scale);
        for (uint32_t d = 0; d < width; d += kLanes) {
            const uint32_t n = width - d < kLanes ? width - d : kLanes;
            simd::store_partial(scaled + d, simd::load_partial(q + d, n) * scale, n);
        }
    }

    void add_block(uint32_t block) {
        const uint32_t index = static_cast<uint32_t>(blocks_[block]);
        const T* keys = cache_.keys(index, tile_.kv_head);
        const T* values = cache_.values(index, tile_.kv_head);
        // Several groups would each convert the block again. Widths that are no multiple of a vector are read beyond
        // their end, which only a copy may be.
        const bool copy_keys = sizeof(T) != sizeof(float) && n_queries_ > kGroup;
        const bool copy_values = copy_keys || params_.v_head_dim % kLanes != 0;

        if (params_.latent != 0) {
            latent_keys(values, keys);
            scores(static_cast<const float*>(scratch_.keys));
        } else if (copy_keys) {
            scores(widen(keys, params_.head_dim));
        } else {
            scores(keys);
        }
        for (uint32_t i = 0; i < n_queries_; ++i) {
            seen_[i] = visible_in_block(i, block);
            if (selected_ != nullptr && i % n_heads_ == 0) find_selected(i, block);
            if (selected_ != nullptr && !any_selected_) seen_[i].end = seen_[i].begin;
            if (seen_[i].begin < seen_[i].end) softmax(i, block);
        }
        if (copy_values) {
            add_weighted(widen(values, params_.v_head_dim));
        } else {
            add_weighted(values);
        }
    }

    const float* widen(const T* block, uint32_t width) {
        for (uint32_t i = 0; i < kCacheBlock * width; i += kLanes) simd::store(scratch_.block + i, load_f32(block + i));
        return scratch_.block;
    }

    // A block's keys from its latents [64][v_head_dim] and rotated keys [head_dim][64].
    void latent_keys(const T* latents, const T* rotated) {
        const uint32_t whole = params_.v_head_dim / kLanes * kLanes;
        for (uint32_t p = 0; p < kCacheBlock; p += 4) {
            float* column = scratch_.keys + p;
            const T* rows = latents + size_t{p} * params_.v_head_dim;
            for (uint32_t d = 0; d < whole; d += kLanes) transpose_4x16(rows + d, column + size_t{d} * kCacheBlock);
            for (uint32_t d = whole; d < params_.v_head_dim; ++d)
                for (uint32_t i = 0; i < 4; ++i)
                    column[d * kCacheBlock + i] = as_float(rows[i * params_.v_head_dim + d]);
        }
        float* rotated_keys = scratch_.keys + size_t{params_.v_head_dim} * kCacheBlock;
        for (uint32_t i = 0; i < kCacheBlock * params_.head_dim; i += kLanes)
            simd::store(rotated_keys + i, load_f32(rotated + i));
    }

    // 16 values of four latents to 16 keys of four positions.
    void transpose_4x16(const T* rows, float* column) const {
        alignas(64) float values[4][kLanes];
        for (uint32_t i = 0; i < 4; ++i) simd::store(values[i], load_f32(rows + size_t{i} * params_.v_head_dim));
        simd::u8x64 columns[4];
        for (uint32_t i = 0; i < 4; ++i) columns[i] = simd::load(reinterpret_cast<const uint8_t*>(values[i]));
        transpose4x4(columns[0], columns[1], columns[2], columns[3]);
        const auto key = [&](uint32_t d) { return reinterpret_cast<uint8_t*>(column + d * kCacheBlock); };
        for (uint32_t d = 0; d < 4; ++d) store4x16(key(d), key(d + 4), key(d + 8), key(d + 12), columns[d]);
    }

    template <class B>
    void scores(const B* keys) {
        for (uint32_t i = 0; i < n_queries_; i += kGroup) {
            with_group_size(group_size(i), [&]<uint32_t n>() {
                score_group<n>(scratch_.q + size_t{i} * key_dim_, key_dim_, keys, scratch_.weights + i * kCacheBlock);
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
        if (block_maximum > maximum_[query]) {
            rescale = exp(simd::set1(maximum_[query] - block_maximum));
            maximum_[query] = block_maximum;
        }
        for (uint32_t v = 0; v < kBlockVectors; ++v) {
            s[v] = exp(s[v] - simd::set1(maximum_[query]));
            simd::store(weights + v * kLanes, s[v]);
        }
        float* sums = scratch_.sums + query * kLanes;
        simd::store(sums, fma(simd::load(sums), rescale, (s[0] + s[1]) + (s[2] + s[3])));
        simd::store(scratch_.rescale + query * kLanes, rescale);
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
        add_values<n>(scratch_.weights + query * kCacheBlock, scratch_.rescale + query * kLanes, values,
                      params_.v_head_dim, seen_[query], scratch_.out + query * out_stride(), out_stride());
    }

    void finish(float* out) {
        for (uint32_t i = 0; i < n_queries_; ++i) {
            f32x16 sum = simd::set1(reduce_add(simd::load(scratch_.sums + i * kLanes)));
            // A sink so large that this overflows leaves nothing of the values, which is right.
            if (sinks_ != nullptr) sum += exp(simd::set1(sinks_[head(i)] - maximum_[i]));
            const f32x16 factor = simd::set1(1.0f) / sum;
            float* target = out + row_head(i) * params_.v_head_dim;
            for (uint32_t d = 0; d < params_.v_head_dim; d += kLanes) {
                const uint32_t n = params_.v_head_dim - d < kLanes ? params_.v_head_dim - d : kLanes;
                simd::store_partial(target + d, simd::load(scratch_.out + i * out_stride() + d) * factor, n);
            }
        }
    }

    const Attention& params_;
    const Tile tile_;
    const Scratch scratch_;
    const CacheLayer<T> cache_;
    const int32_t* blocks_;
    const float* slopes_;
    const float* sinks_;
    const float* selected_;
    const uint32_t key_dim_;
    const uint32_t n_heads_;
    const uint32_t n_queries_;
    uint32_t position_[kTileQueries];
    float maximum_[kTileQueries];
    Range seen_[kTileQueries];  // in the current block
    alignas(64) float hidden_[kCacheBlock];
    bool any_selected_ = true;
};

size_t scratch_bytes(const KernelArgs& args) {
    return sizeof(float) * Scratch::floats(args.as<Attention>());
}

template <class T>
void run(const KernelArgs& args, uint32_t begin, uint32_t end, std::byte* memory) {
    const Attention& params = args.as<Attention>();
    const TileShape shape = tile_shape(params, args.rows);
    const Scratch scratch(params, memory);
    for (uint32_t item = begin; item < end; ++item) {
        const Tile tile = find_tile(params, args.operand<const Span>(attention::spans), shape, item);
        TileAttention<T>(args, tile, scratch)
            .run(args.operand<const float>(attention::q), args.operand<const float>(attention::q_rotated),
                 args.operand<float>(attention::out));
    }
}

constexpr Kernel kKernels[] = {{"attention_f32", &attention::signature, items, scratch_bytes, run<float>},
                               {"attention_f16", &attention::signature, items, scratch_bytes, run<f16>}};

}  // namespace

std::span<const Kernel> attention_kernels() {
    return kKernels;
}

}  // namespace ferrule::cpu::FERRULE_ISA
