// expert_linear for few rows, see csrc/params/expert_linear.h: a simdgroup takes some rows of the weights of one slot's
// expert; its lanes share out their length.
#include <metal_stdlib>

#include "experts.h"
#include "formats/all.h"

using namespace metal;
using namespace ferrule;

constant bool has_routes [[function_constant(expert_linear::has_routes)]];
constant bool has_bias [[function_constant(expert_linear::has_bias)]];
constant uint fc_weighted [[function_constant(expert_linear::fc_weighted)]];

template <class Block>
kernel void expert_matvec(device const float* x [[buffer(expert_linear::x)]],
                          device const float* routes [[buffer(expert_linear::routes), function_constant(has_routes)]],
                          device const ExpertMatrix<Block>* weight [[buffer(expert_linear::weight)]],
                          device const float* bias [[buffer(expert_linear::bias), function_constant(has_bias)]],
                          device float* out [[buffer(expert_linear::out)]],
                          constant ExpertLinear& params [[buffer(params_buffer)]],
                          uint2 group [[threadgroup_position_in_grid]],
                          uint simdgroup [[simdgroup_index_in_threadgroup]],
                          uint lane [[thread_index_in_simdgroup]]) {
    typedef WeightFormat<Block> Format;
    const uint k = params.k, n = params.n, slot = group.y;
    const uint first = (group.x * expert_linear::kMatvecSimdgroups + simdgroup) * expert_linear::kMatvecRows;
    if (first >= n) return;
    const uint expert = has_routes ? expert_of(routes, slot, params.slots) : slot % params.slots;
    device const Block* weights[expert_linear::kMatvecRows];
    for (uint r = 0; r < expert_linear::kMatvecRows; ++r) {
        // Rows past the end are not stored.
        weights[r] = weight[expert].blocks + ulong(min(first + r, n - 1)) * (k / Block::kElements);
    }
    x += ulong(part_of(slot, params)) * k;

    float sums[expert_linear::kMatvecRows] = {};
    const uint n_chunks = (k + Format::kChunk - 1) / Format::kChunk;
    for (uint chunk = lane; chunk < n_chunks; chunk += kSimdWidth) {
        typename Format::Input input;
        Format::prepare(x, chunk, k, input);
        for (uint r = 0; r < expert_linear::kMatvecRows; ++r) sums[r] += Format::dot(weights[r], chunk, k, input);
    }
    for (uint r = 0; r < expert_linear::kMatvecRows; ++r) {
        float sum = simd_sum(sums[r]);
        const uint column = first + r;
        if (lane != 0 || column >= n) continue;
        if (has_bias) sum += bias[ulong(expert) * n + column];
        if (fc_weighted != 0) sum *= weight_of(routes, slot, params.slots);
        out[ulong(slot) * n + column] = sum;
    }
}

template [[host_name("expert_matvec_f32")]] kernel decltype(expert_matvec<F32>) expert_matvec<F32>;
template [[host_name("expert_matvec_f16")]] kernel decltype(expert_matvec<F16>) expert_matvec<F16>;
template [[host_name("expert_matvec_bf16")]] kernel decltype(expert_matvec<BF16>) expert_matvec<BF16>;
template [[host_name("expert_matvec_q4_0")]] kernel decltype(expert_matvec<Q4_0>) expert_matvec<Q4_0>;
template [[host_name("expert_matvec_q4_1")]] kernel decltype(expert_matvec<Q4_1>) expert_matvec<Q4_1>;
template [[host_name("expert_matvec_q5_0")]] kernel decltype(expert_matvec<Q5_0>) expert_matvec<Q5_0>;
template [[host_name("expert_matvec_q5_1")]] kernel decltype(expert_matvec<Q5_1>) expert_matvec<Q5_1>;
template [[host_name("expert_matvec_q8_0")]] kernel decltype(expert_matvec<Q8_0>) expert_matvec<Q8_0>;
template [[host_name("expert_matvec_q2_k")]] kernel decltype(expert_matvec<Q2_K>) expert_matvec<Q2_K>;
template [[host_name("expert_matvec_q3_k")]] kernel decltype(expert_matvec<Q3_K>) expert_matvec<Q3_K>;
template [[host_name("expert_matvec_q4_k")]] kernel decltype(expert_matvec<Q4_K>) expert_matvec<Q4_K>;
template [[host_name("expert_matvec_q5_k")]] kernel decltype(expert_matvec<Q5_K>) expert_matvec<Q5_K>;
template [[host_name("expert_matvec_q6_k")]] kernel decltype(expert_matvec<Q6_K>) expert_matvec<Q6_K>;
template [[host_name("expert_matvec_iq1_s")]] kernel decltype(expert_matvec<IQ1_S>) expert_matvec<IQ1_S>;
template [[host_name("expert_matvec_iq1_m")]] kernel decltype(expert_matvec<IQ1_M>) expert_matvec<IQ1_M>;
template [[host_name("expert_matvec_iq2_xxs")]] kernel decltype(expert_matvec<IQ2_XXS>) expert_matvec<IQ2_XXS>;
template [[host_name("expert_matvec_iq2_xs")]] kernel decltype(expert_matvec<IQ2_XS>) expert_matvec<IQ2_XS>;
template [[host_name("expert_matvec_iq2_s")]] kernel decltype(expert_matvec<IQ2_S>) expert_matvec<IQ2_S>;
template [[host_name("expert_matvec_iq3_xxs")]] kernel decltype(expert_matvec<IQ3_XXS>) expert_matvec<IQ3_XXS>;
template [[host_name("expert_matvec_iq3_s")]] kernel decltype(expert_matvec<IQ3_S>) expert_matvec<IQ3_S>;
template [[host_name("expert_matvec_iq4_nl")]] kernel decltype(expert_matvec<IQ4_NL>) expert_matvec<IQ4_NL>;
template [[host_name("expert_matvec_iq4_xs")]] kernel decltype(expert_matvec<IQ4_XS>) expert_matvec<IQ4_XS>;
template [[host_name("expert_matvec_tq1_0")]] kernel decltype(expert_matvec<TQ1_0>) expert_matvec<TQ1_0>;
template [[host_name("expert_matvec_tq2_0")]] kernel decltype(expert_matvec<TQ2_0>) expert_matvec<TQ2_0>;
template [[host_name("expert_matvec_mxfp4")]] kernel decltype(expert_matvec<MXFP4>) expert_matvec<MXFP4>;
template [[host_name("expert_matvec_nvfp4")]] kernel decltype(expert_matvec<NVFP4>) expert_matvec<NVFP4>;
