// embedding (params/embedding.h): a work item is a token. Tokens outside the table give NaN.
#include "../params/embedding.h"

#include "../formats/formats.h"
#include "kernel.h"

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
    const size_t n_blocks = params.k / Block::kElements;
    for (size_t r = begin; r < end; ++r) {
        float* out = args.operand<float>(embedding::out) + r * params.k;
        const uint32_t token = static_cast<uint32_t>(tokens[r]);
        if (token >= params.n) {
            for (uint32_t i = 0; i < params.k; ++i) out[i] = __builtin_nanf("");
            continue;
        }
        const uint8_t* row = table + token * n_blocks * sizeof(Block);
        for (size_t b = 0; b < n_blocks; ++b) {
            Block block;  // a copy, because rows may lie at any address
            __builtin_memcpy(&block, row + b * sizeof(Block), sizeof(Block));
            float* values = out + b * Block::kElements;
            formats::decode(block, values);
            for (uint32_t i = 0; i < Block::kElements; ++i) values[i] *= params.scale;
        }
    }
}

template <class Block>
constexpr Kernel kernel(const char* name) {
    return {name, &embedding::signature, items, nullptr, run<Block>};
}

constexpr Kernel table[] = {
    kernel<formats::F32>("embedding_f32"),         kernel<formats::F16>("embedding_f16"),
    kernel<formats::BF16>("embedding_bf16"),       kernel<formats::Q4_0>("embedding_q4_0"),
    kernel<formats::Q4_1>("embedding_q4_1"),       kernel<formats::Q5_0>("embedding_q5_0"),
    kernel<formats::Q5_1>("embedding_q5_1"),       kernel<formats::Q8_0>("embedding_q8_0"),
    kernel<formats::Q2_K>("embedding_q2_k"),       kernel<formats::Q3_K>("embedding_q3_k"),
    kernel<formats::Q4_K>("embedding_q4_k"),       kernel<formats::Q5_K>("embedding_q5_k"),
    kernel<formats::Q6_K>("embedding_q6_k"),       kernel<formats::IQ1_S>("embedding_iq1_s"),
    kernel<formats::IQ1_M>("embedding_iq1_m"),     kernel<formats::IQ2_XXS>("embedding_iq2_xxs"),
    kernel<formats::IQ2_XS>("embedding_iq2_xs"),   kernel<formats::IQ2_S>("embedding_iq2_s"),
    kernel<formats::IQ3_XXS>("embedding_iq3_xxs"), kernel<formats::IQ3_S>("embedding_iq3_s"),
    kernel<formats::IQ4_NL>("embedding_iq4_nl"),   kernel<formats::IQ4_XS>("embedding_iq4_xs"),
    kernel<formats::TQ1_0>("embedding_tq1_0"),     kernel<formats::TQ2_0>("embedding_tq2_0"),
    kernel<formats::MXFP4>("embedding_mxfp4"),     kernel<formats::NVFP4>("embedding_nvfp4"),
};

}  // namespace

std::span<const Kernel> embedding_kernels() {
    return table;
}

}  // namespace ferrule::cpu::FERRULE_ISA
