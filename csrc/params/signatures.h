// Every op's signature. An op that is not listed here does not exist for the plan validator and Python.
#pragma once
#include "activation.h"
#include "add.h"
#include "attention.h"
#include "attention_merge.h"
#include "attention_split.h"
#include "causal_conv1d.h"
#include "clamp.h"
#include "clamped_swiglu.h"
#include "dynamic_rope_table.h"
#include "embedding.h"
#include "expert_linear.h"
#include "expert_order.h"
#include "expert_sum.h"
#include "gated_activation.h"
#include "gated_delta_rule.h"
#include "keep_outliers.h"
#include "kv_append.h"
#include "latent_attention.h"
#include "layer_norm.h"
#include "limit.h"
#include "linears.h"
#include "linears_merge.h"
#include "long_rope_table.h"
#include "matmul.h"
#include "mix_streams.h"
#include "multiply.h"
#include "qkv_prepare.h"
#include "quantize.h"
#include "residual_norm.h"
#include "rms_norm.h"
#include "root_mean_square.h"
#include "rope.h"
#include "rope_table.h"
#include "route.h"
#include "sample.h"
#include "scale.h"
#include "scale_by_position.h"
#include "sectioned_rope_table.h"
#include "select_positions.h"
#include "softcap.h"
#include "ssm_scan.h"
#include "take_columns.h"
#include "take_rows.h"
#include "xielu.h"

namespace ferrule {

inline constexpr const OpSignature* kSignatures[] = {
    &activation::signature,
    &add::signature,
    &attention::signature,
    &attention_merge::signature,
    &attention_split::signature,
    &causal_conv1d::signature,
    &clamp::signature,
    &clamped_swiglu::signature,
    &dynamic_rope_table::signature,
    &embedding::signature,
    &expert_linear::signature,
    &expert_order::signature,
    &expert_sum::signature,
    &gated_activation::signature,
    &gated_delta_rule::signature,
    &keep_outliers::signature,
    &kv_append::signature,
    &latent_attention::signature,
    &layer_norm::signature,
    &limit::signature,
    &linears::signature,
    &linears_merge::signature,
    &long_rope_table::signature,
    &matmul::signature,
    &mix_streams::signature,
    &multiply::signature,
    &qkv_prepare::signature,
    &quantize::signature,
    &residual_norm::signature,
    &rms_norm::signature,
    &root_mean_square::signature,
    &rope::signature,
    &rope_table::signature,
    &route::signature,
    &sample::signature,
    &scale::signature,
    &scale_by_position::signature,
    &sectioned_rope_table::signature,
    &select_positions::signature,
    &softcap::signature,
    &ssm_scan::signature,
    &take_columns::signature,
    &take_rows::signature,
    &xielu::signature,
};

}  // namespace ferrule
