// attention (contract in ../params/attention.h) over a cache in f32, f16, bf16 or q8_0.
//
// A work item is a tile (attention_tile.h), so that each block of K and V is read, and converted to f32, once for all
// its queries. With `latent`, a block's keys are put together from its latents, transposed, and its rotated keys.
#include <algorithm>
#include <optional>

#include "attention_tile.h"
#include "latents.h"

namespace ferrule::cpu::FERRULE_ISA {

namespace {

constexpr uint32_t kMinTiles = 16;     // smaller tiles rather than fewer, so that every thread has work
constexpr uint32_t kOneRowHeads = 16;  // of one row: more tiles, but what a tile does to each block must pay

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

struct Place {
    Tile tile;
    uint32_t kv_head;
};

// The last rows of a span, which see most positions, come first: threads that take items in order then finish together.
Place find_tile(const Attention& params, const Span* spans, const TileShape& shape, uint32_t item) {
    const uint32_t per_row_tile = params.kv_heads * shape.parts;
    while (item >= row_tiles(*spans, shape) * per_row_tile) item -= row_tiles(*spans++, shape) * per_row_tile;
    const uint32_t row_tile = row_tiles(*spans, shape) - 1 - item / per_row_tile;
    const uint32_t kv_head = item % per_row_tile / shape.parts, part = item % shape.parts;
    const uint32_t group = params.heads / params.kv_heads;
    const uint32_t row_begin = row_tile * shape.rows, row_end = row_begin + shape.rows;
    const uint32_t head_begin = part * shape.heads, head_end = head_begin + shape.heads;
    return {{*spans,
             {row_begin, row_end < spans->n_rows ? row_end : spans->n_rows},
             {kv_head * group + head_begin, kv_head * group + (head_end < group ? head_end : group)}},
            kv_head};
}

// --- the blocks that a tile sees

// Width of a query.
constexpr uint32_t key_dim(const Attention& params) {
    return params.latent != 0 ? params.v_head_dim + params.head_dim : params.head_dim;
}

constexpr size_t block_floats(const Attention& params) {
    const size_t widest = params.head_dim > params.v_head_dim ? params.head_dim : params.v_head_dim;
    return kCacheBlock * widest + kLanes;
}

// A tile's scratch, then K or V of one block in f32 and one vector beyond, then [key_dim][64] of latent keys.
size_t scratch_bytes(const KernelArgs& args) {
    const Attention& params = args.as<Attention>();
    const size_t keys = params.latent != 0 ? kCacheBlock * key_dim(params) : 0;
    return sizeof(float) * (TileScratch::floats(key_dim(params), params.v_head_dim) + block_floats(params) + keys);
}

// Of a cache in pairs of bfloat16, queries are rounded too.
template <class T>
using FactorOf = std::conditional_t<std::is_same_v<T, Pair>, Pair, float>;

// Tiles [begin, end) of the same rows, each of another KV head or of other heads, go through the cache together, block
// by block: what they read of a block lies side by side in memory. They share a tile's scratch.
template <class T>
void run_tiles(const KernelArgs& args, const TileShape& shape, uint32_t begin, uint32_t end, float* memory) {
    const Attention& params = args.as<Attention>();
    const TileScratch scratch(key_dim(params), params.v_head_dim, memory);
    float* copy = scratch.end;
    float* latent_keys = copy + block_floats(params);

    struct {
        std::optional<TileAttention<FactorOf<T>>> tile;
        uint32_t kv_head;
    } tiles[kTileQueries];
    const uint32_t n_tiles = end - begin;
    for (uint32_t i = 0; i < n_tiles; ++i) {
        const Place place = find_tile(params, args.operand<const Span>(attention::spans), shape, begin + i);
        tiles[i].tile.emplace(params, key_dim(params), place.tile,
                              scratch.after(i * shape.rows * shape.heads, key_dim(params), params.v_head_dim),
                              args.operand<const float>(attention::slopes), args.operand<const float>(attention::sinks),
                              args.operand<const float>(attention::selected));
        tiles[i].kv_head = place.kv_head;
        tiles[i].tile->start(args.operand<const float>(attention::q), args.operand<const float>(attention::q_rotated),
                             params.latent != 0 ? params.head_dim : 0);
    }

    const CacheLayer<T> cache{args.operand<T>(attention::cache), params.kv_heads, params.head_dim, params.v_head_dim};
    // Several groups would each convert the block again; of q8_0, even one would convert its scales too often. Widths
    // that are no multiple of a vector are read beyond their end, which only a copy may be, and pairs' padding.
    constexpr bool kQuantized = sizeof(T) == 1, kPairs = std::is_same_v<T, Pair>;
    const bool copy_keys = kQuantized || (sizeof(T) == 2 && tiles[0].tile->queries() > kGroup);
    const bool copy_values = copy_keys || (!kPairs && params.v_head_dim % kLanes != 0);
    const auto add_block = [&](auto& tile, uint32_t kv_head, uint32_t block, uint32_t index) {
        const auto add = [&](const auto* keys) {
            if constexpr (!kQuantized) {
                if (!copy_values) return tile.add(block, keys, [&] { return cache.values(index, kv_head); });
            }
            if constexpr (!kPairs) {
                tile.add(block, keys, [&] {
                    cache.widen_values(index, kv_head, copy);
                    return static_cast<const float*>(copy);
                });
            }
        };
        if constexpr (kPairs) {
            add(cache.keys(index, kv_head));
        } else if (params.latent != 0) {
            transpose_latents(cache, index, latent_keys);
            cache.widen_keys(index, 0, latent_keys + size_t{params.v_head_dim} * kCacheBlock);
            add(latent_keys);
        } else if (copy_keys) {
            cache.widen_keys(index, kv_head, copy);
            add(copy);
        } else if constexpr (!kQuantized) {
            add(cache.keys(index, kv_head));
        }
    };

    const Tile& first = tiles[0].tile->tile();
    const int32_t* blocks = args.operand<const int32_t>(attention::block_table) + first.span.block_table_begin;
    const Range seen = tiles[0].tile->seen();
    for (uint32_t block = seen.begin / kCacheBlock; block * kCacheBlock < seen.end; ++block) {
        for (uint32_t i = 0; i < n_tiles; ++i)
            add_block(*tiles[i].tile, tiles[i].kv_head, block, static_cast<uint32_t>(blocks[block]));
    }
    for (uint32_t i = 0; i < n_tiles; ++i) tiles[i].tile->finish(args.operand<float>(attention::out));
}

template <class T>
void run(const KernelArgs& args, uint32_t begin, uint32_t end, std::byte* memory) {
    const Attention& params = args.as<Attention>();
    const TileShape shape = tile_shape(params, args.rows);
    const uint32_t same_rows = params.kv_heads * shape.parts, together = kTileQueries / (shape.rows * shape.heads);
    for (uint32_t item = begin; item < end;) {
        const uint32_t next = std::min({end, item + same_rows - item % same_rows, item + together});
        run_tiles<T>(args, shape, item, next, reinterpret_cast<float*>(memory));
        item = next;
    }
}

constexpr Kernel kKernels[] = {
    {"attention_f32", &attention::signature, items, scratch_bytes, run<float>},
    {"attention_f16", &attention::signature, items, scratch_bytes, run<f16>},
    {"attention_q8_0", &attention::signature, items, scratch_bytes, run<int8_t>},
#if defined(__AVX512BF16__)
    {"attention_bf16", &attention::signature, items, scratch_bytes, run<Pair>},
#endif
};

}  // namespace

std::span<const Kernel> attention_kernels() {
    return kKernels;
}

}  // namespace ferrule::cpu::FERRULE_ISA
