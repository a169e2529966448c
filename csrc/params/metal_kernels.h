// The table of Metal kernels: what each computes and how it is dispatched.
#pragma once
#include <cctype>
#include <string>
#include <vector>

#include "../formats/formats.h"
#include "metal_dispatch.h"
#include "signatures.h"

namespace ferrule {

struct MetalKernel {
    std::string name;
    const OpSignature* signature;
    MetalDispatch (*dispatch)(const void* params, const LaunchSizes& sizes);
};

namespace metal_table {

template <class Params, MetalDispatch (*dispatch)(const Params&, const LaunchSizes&)>
MetalDispatch untyped(const void* params, const LaunchSizes& sizes) {
    return dispatch(*static_cast<const Params*>(params), sizes);
}

// {name, signature, dispatch} of a header's only kernel.
template <class Params, const OpSignature& signature, MetalDispatch (*dispatch)(const Params&, const LaunchSizes&)>
MetalKernel row(const std::string& suffix = "") {
    return {signature.op + suffix, &signature, &untyped<Params, dispatch>};
}

// {name, signature, dispatch} of an op with a thread per value of its result, rows of `width`.
template <class Params, const OpSignature& signature>
MetalKernel elementwise() {
    return {signature.op, &signature, [](const void* params, const LaunchSizes& sizes) {
                return elementwise_dispatch(static_cast<const Params*>(params)->width, sizes);
            }};
}

inline std::vector<MetalKernel> make() {
    std::vector<MetalKernel> table = {
        elementwise<UnaryActivation, activation::signature>(),
        elementwise<Add, add::signature>(),
        row<AttentionMerge, attention_merge::signature, attention_merge::metal_dispatch>(),
        row<CausalConv1d, causal_conv1d::signature, causal_conv1d::metal_dispatch>(),
        elementwise<Clamp, clamp::signature>(),
        elementwise<ClampedSwiglu, clamped_swiglu::signature>(),
        row<DynamicRopeTable, dynamic_rope_table::signature, dynamic_rope_table::metal_dispatch>(),
        row<ExpertOrder, expert_order::signature, expert_order::metal_dispatch>(),
        elementwise<ExpertSum, expert_sum::signature>(),
        elementwise<GatedActivation, gated_activation::signature>(),
        row<GatedDeltaRule, gated_delta_rule::signature, gated_delta_rule::metal_dispatch>(),
        row<KeepOutliers, keep_outliers::signature, keep_outliers::metal_dispatch>(),
        row<LayerNorm, layer_norm::signature, layer_norm::metal_dispatch>(),
        row<Linears, linears_merge::signature, linears_merge::metal_dispatch>(),
        row<LongRopeTable, long_rope_table::signature, long_rope_table::metal_dispatch>(),
        row<MixStreams, mix_streams::signature, mix_streams::metal_dispatch>(),
        elementwise<Multiply, multiply::signature>(),
        row<ResidualNorm, residual_norm::signature, residual_norm::metal_dispatch>(),
        row<RmsNorm, rms_norm::signature, rms_norm::metal_dispatch>(),
        row<RootMeanSquare, root_mean_square::signature, root_mean_square::metal_dispatch>(),
        row<Rope, rope::signature, rope::metal_dispatch>(),
        row<RopeTable, rope_table::signature, rope_table::metal_dispatch>(),
        row<Route, route::signature, route::metal_dispatch>(),
        row<Sample, sample::signature, sample::metal_dispatch>(),
        elementwise<Scale, scale::signature>(),
        elementwise<ScaleByPosition, scale_by_position::signature>(),
        row<SectionedRopeTable, sectioned_rope_table::signature, sectioned_rope_table::metal_dispatch>(),
        elementwise<Softcap, softcap::signature>(),
        row<SsmScan, ssm_scan::signature, ssm_scan::metal_dispatch>(),
        row<TakeColumns, take_columns::signature, take_columns::metal_dispatch>(),
        elementwise<TakeRows, take_rows::signature>(),
        elementwise<Xielu, xielu::signature>(),
    };
    for (const char* kv : {"_f16", "_f32", "_q8_0"}) {
        table.push_back({std::string("absorbed_attention") + kv, &attention::signature,
                         &untyped<Attention, attention::latent_dispatch>});
        table.push_back({std::string("absorbed_attention_split") + kv, &attention_split::signature,
                         &untyped<AttentionSplit, attention_split::latent_dispatch>});
        table.push_back(row<Attention, attention::signature, attention::metal_dispatch>(kv));
        table.push_back(row<AttentionSplit, attention_split::signature, attention_split::metal_dispatch>(kv));
        table.push_back(row<KvAppend, kv_append::signature, kv_append::metal_dispatch>(kv));
        table.push_back(row<SelectPositions, select_positions::signature, select_positions::metal_dispatch>(kv));
        table.push_back(row<QkvPrepare, qkv_prepare::signature, qkv_prepare::metal_dispatch>(kv));
    }
    for (const formats::FormatInfo& format : formats::kFormats) {
        std::string suffix = std::string("_") + format.name;
        for (char& c : suffix) c = static_cast<char>(std::tolower(c));
        table.push_back(row<Embedding, embedding::signature, embedding::metal_dispatch>(suffix));
        table.push_back({"expert_matmul" + suffix, &expert_linear::signature,
                         &untyped<ExpertLinear, expert_linear::matmul_dispatch>});
        table.push_back({"expert_matvec" + suffix, &expert_linear::signature,
                         &untyped<ExpertLinear, expert_linear::matvec_dispatch>});
        table.push_back({"matmul" + suffix, &linears::signature, &untyped<Linears, linears::matmul_dispatch>});
        table.push_back({"matvec" + suffix, &linears::signature, &untyped<Linears, linears::matvec_dispatch>});
        table.push_back(
            {"matvec_rows" + suffix, &linears::signature, &untyped<Linears, linears::matvec_rows_dispatch>});
    }
    return table;
}

}  // namespace metal_table

// Every kernel of metal/*.metal.
inline const std::vector<MetalKernel>& metal_kernels() {
    static const std::vector<MetalKernel> table = metal_table::make();
    return table;
}

}  // namespace ferrule
