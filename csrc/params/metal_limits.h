// The most that Metal's kernels take of a parameter.
#pragma once
#include "signatures.h"

namespace ferrule {

struct MetalLimit {
    const char* kernel;  // without the formats in its name
    const char* field;
    uint32_t most;
};

inline constexpr MetalLimit kMetalLimits[] = {
    {"absorbed_attention", "head_dim", attention::kMaxRotated},
    {"absorbed_attention", "v_head_dim", attention::kMaxLatent},
    {"absorbed_attention_split", "head_dim", attention::kMaxRotated},
    {"absorbed_attention_split", "v_head_dim", attention::kMaxLatent},
    {"attention", "v_head_dim", attention::kMaxValues},
    {"attention_split", "v_head_dim", attention_split::kMaxValues},
    {"causal_conv1d", "taps", causal_conv1d::kMaxTaps},
    {"gated_delta_rule", "k_dim", gated_delta_rule::kMaxKey},
    {"select_positions", "top", select_positions::kMaxTop},
    {"ssm_scan", "n", ssm_scan::kMaxN},
};

}  // namespace ferrule
