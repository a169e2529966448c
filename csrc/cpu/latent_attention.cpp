// latent_attention (contract in ../params/latent_attention.h) over a cache in any type.
//
// A work item is one head of one sequence. Its matrices are decoded once; then, block by block, keys and values are
// expanded for all tiles (attention_tile.h) of the sequence's rows, so that scratch does not grow with the context.
#include "../params/latent_attention.h"

#include "attention_tile.h"
#include "decode_row.h"
#include "latents.h"

namespace ferrule::cpu::FERRULE_ISA {

namespace {

using Decode = void (*)(const uint8_t* row, uint32_t n, float* out);

struct RowFormat {
    uint32_t ggml_type;
    uint32_t elements;  // values per block
    uint32_t bytes;     // per block
    Decode decode;

    size_t row_bytes(uint32_t n) const { return size_t{n} / elements * bytes; }
};

constexpr auto kRowFormats = []<size_t... i>(std::index_sequence<i...>) {
    using namespace formats;
    return std::array{
        RowFormat{kFormats[i].ggml_type, kFormats[i].elements, kFormats[i].bytes, decode_row<BlockOf<i>>}...};
}(std::make_index_sequence<formats::kFormats.size()>{});

const RowFormat& row_format(uint32_t ggml_type) {
    const RowFormat* format = &kRowFormats[0];
    while (format->ggml_type != ggml_type) ++format;
    return *format;
}

uint32_t items(const KernelArgs& args) {
    return args.dims.sequences * args.as<LatentAttention>().heads;
}

constexpr uint32_t n_tiles(uint32_t rows) {
    return (rows + kTileQueries - 1) / kTileQueries;
}

// A thread's memory, in floats; every part is a multiple of a vector.
struct Scratch {
    float* k_up;     // [plain][rank] of the head, transposed
    float* v_up;     // [v_dim][rank]
    float* latents;  // [rank][64] of a block
    float* keys;     // [plain + rotated][64]
    float* columns;  // [v_dim][64]: values, transposed
    float* values;   // [64][v_dim] and one vector beyond
    float* tiles;    // a TileScratch for each tile

    static size_t floats(const LatentAttention& p, uint32_t rows) {
        const size_t matrices = padded((p.plain + p.v_dim) * p.rank);
        const size_t block = kCacheBlock * (p.rank + p.plain + p.rotated + 2 * p.v_dim) + kLanes;
        return matrices + block + n_tiles(rows) * TileScratch::floats(p.plain + p.rotated, p.v_dim);
    }

    Scratch(const LatentAttention& p, float* memory) : k_up(memory) {
        v_up = k_up + size_t{p.plain} * p.rank;
        latents = k_up + padded((p.plain + p.v_dim) * p.rank);
        keys = latents + size_t{p.rank} * kCacheBlock;
        columns = keys + size_t{p.plain + p.rotated} * kCacheBlock;
        values = columns + size_t{p.v_dim} * kCacheBlock;
        tiles = values + size_t{p.v_dim} * kCacheBlock + kLanes;
    }
};

void decode_matrices(const KernelArgs& args, uint32_t head, const Scratch& scratch) {
    const LatentAttention& p = args.as<LatentAttention>();
    const RowFormat& k_format = row_format(p.k_format);
    const RowFormat& v_format = row_format(p.v_format);
    const uint8_t* k_up = args.operand<const uint8_t* const>(latent_attention::k_up)[head];
    const uint8_t* v_up = args.operand<const uint8_t* const>(latent_attention::v_up)[head];
    float* row = scratch.keys;
    for (uint32_t r = 0; r < p.rank; ++r) {
        k_format.decode(k_up + r * k_format.row_bytes(p.plain), p.plain, row);
        for (uint32_t d = 0; d < p.plain; ++d) scratch.k_up[size_t{d} * p.rank + r] = row[d];
    }
    for (uint32_t d = 0; d < p.v_dim; ++d) {
        v_format.decode(v_up + d * v_format.row_bytes(p.rank), p.rank, scratch.v_up + size_t{d} * p.rank);
    }
}

// out[i][64] = matrix[i] . latents for `n` rows of `rank` values.
void multiply(const float* matrix, uint32_t n, uint32_t rank, const float* latents, float* out) {
    for (uint32_t i = 0; i < n; i += kGroup) {
        with_group_size(n - i < kGroup ? n - i : kGroup, [&]<uint32_t group>() {
            score_group<group>(matrix + size_t{i} * rank, rank, latents, out + size_t{i} * kCacheBlock);
        });
    }
}

template <class T>
void expand(const LatentAttention& p, const CacheLayer<T>& cache, uint32_t block, const Scratch& scratch) {
    transpose_latents(cache, block, scratch.latents);
    multiply(scratch.k_up, p.plain, p.rank, scratch.latents, scratch.keys);
    cache.widen_keys(block, 0, scratch.keys + size_t{p.plain} * kCacheBlock);
    multiply(scratch.v_up, p.v_dim, p.rank, scratch.latents, scratch.columns);
    for (uint32_t d = 0; d < p.v_dim; ++d)
        for (uint32_t i = 0; i < kCacheBlock; ++i)
            scratch.values[size_t{i} * p.v_dim + d] = scratch.columns[d * kCacheBlock + i];
}

template <class T>
void run_head(const KernelArgs& args, const Span& span, uint32_t head, float* memory) {
    const LatentAttention& p = args.as<LatentAttention>();
    const Scratch scratch(p, memory);
    const uint32_t key_dim = p.plain + p.rotated;
    Attention params{};
    params.heads = params.kv_heads = p.heads;
    params.head_dim = key_dim;
    params.v_head_dim = p.v_dim;
    params.scale = p.scale;
    const CacheLayer<T> cache{args.operand<T>(latent_attention::cache), 1, p.rotated, p.rank};
    const int32_t* blocks = args.operand<const int32_t>(latent_attention::block_table) + span.block_table_begin;
    const auto tile = [&](uint32_t i) {
        const uint32_t end = (i + 1) * kTileQueries;
        const Tile rows{span, {i * kTileQueries, end < span.n_rows ? end : span.n_rows}, {head, head + 1}};
        float* own = scratch.tiles + i * TileScratch::floats(key_dim, p.v_dim);
        return TileAttention<>(params, key_dim, rows, {key_dim, p.v_dim, own}, nullptr, nullptr, nullptr);
    };

    decode_matrices(args, head, scratch);
    for (uint32_t i = 0; i < n_tiles(span.n_rows); ++i) {
        tile(i).start(args.operand<const float>(latent_attention::q),
                      args.operand<const float>(latent_attention::q_rotated), p.rotated);
    }
    for (uint32_t block = 0; block * kCacheBlock < span.position_begin + span.n_rows; ++block) {
        expand(p, cache, static_cast<uint32_t>(blocks[block]), scratch);
        for (uint32_t i = 0; i < n_tiles(span.n_rows); ++i) {
            TileAttention<> rows = tile(i);
            if (block * kCacheBlock >= rows.seen().end) continue;
            rows.add(block, scratch.keys, [&] { return scratch.values; });
        }
    }
    for (uint32_t i = 0; i < n_tiles(span.n_rows); ++i) tile(i).finish(args.operand<float>(latent_attention::out));
}

size_t scratch_bytes(const KernelArgs& args) {
    return sizeof(float) * Scratch::floats(args.as<LatentAttention>(), args.rows);
}

template <class T>
void run(const KernelArgs& args, uint32_t begin, uint32_t end, std::byte* memory) {
    const uint32_t heads = args.as<LatentAttention>().heads;
    const Span* spans = args.operand<const Span>(latent_attention::spans);
    for (uint32_t item = begin; item < end; ++item) {
        run_head<T>(args, spans[item / heads], item % heads, reinterpret_cast<float*>(memory));
    }
}

constexpr Kernel kKernels[] = {
    {"latent_attention_f32", &latent_attention::signature, items, scratch_bytes, run<float>},
    {"latent_attention_f16", &latent_attention::signature, items, scratch_bytes, run<f16>},
    {"latent_attention_q8_0", &latent_attention::signature, items, scratch_bytes, run<int8_t>}};

}  // namespace

std::span<const Kernel> latent_attention_kernels() {
    return kKernels;
}

}  // namespace ferrule::cpu::FERRULE_ISA
