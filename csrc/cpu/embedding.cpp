// embedding (params/embedding.h): a work item is a token. Tokens outside the table give NaN.
#include "../params/embedding.h"

#include "decode_row.h"
#include "kernels_by_format.h"

namespace ferrule::cpu::FERRULE_ISA {
namespace {

uint32_t items(const KernelArgs& args) {
    return args.rows;
}

template <class Block>
void run(const KernelArgs& args, uint32_t begin, uint32_t end, std::byte*) {
    const auto& params = args.as<Embedding>();
    const int32_t* tokens = args.operand<const int32_t>(embedding::tokens);
    const uint8_t* table = args.operand<const uint8_t>(embedding::table);
    const size_t row_bytes = params.k / Block::kElements * sizeof(Block);
    for (size_t r = begin; r < end; ++r) {
        float* out = args.operand<float>(embedding::out) + r * params.k;
        const uint32_t token = static_cast<uint32_t>(tokens[r]);
        if (token >= params.n) {
            for (uint32_t i = 0; i < params.k; ++i) out[i] = __builtin_nanf("");
            continue;
        }
        decode_row<Block>(table + token * row_bytes, params.k, out);
        for (uint32_t i = 0; i < params.k; ++i) out[i] *= params.scale;
    }
}

constexpr auto table = kernels_by_format<"embedding", 0>([]<size_t format>(const char* name) {
    return Kernel{name, &embedding::signature, items, nullptr, run<formats::BlockOf<format>>};
});

}  // namespace

std::span<const Kernel> embedding_kernels() {
    return table;
}

}  // namespace ferrule::cpu::FERRULE_ISA
