"""Ops whose kernels do the same on Metal as on the CPU: the CPU's own tests."""

from test_activation import test_activation, test_clamped_swiglu, test_gated_activation, test_xielu
from test_causal_conv1d import test_causal_conv1d
from test_elementwise import (
    test_add,
    test_add_in_place,
    test_clamp,
    test_keep_outliers,
    test_mix_streams,
    test_multiply,
    test_root_mean_square,
    test_scale,
    test_softcap,
    test_take_columns,
    test_take_rows,
)
from test_expert_linear import test_expert_sum
from test_gated_delta_rule import test_gated_delta_rule
from test_kv_append import test_kv_append, test_what_is_not_finite_makes_its_scale_so
from test_layer_norm import test_layer_norm
from test_rms_norm import test_rms_norm
from test_rope import test_rope
from test_route import test_equal_experts_go_to_the_lower_id, test_ids_are_valid_whatever_the_logits, test_route
from test_select_positions import test_of_equal_positions_the_lower_are_taken, test_select_positions
from test_ssm_scan import test_ssm_scan, test_steps_alone_give_the_same_bits

__all__ = [
    "test_activation",
    "test_add",
    "test_add_in_place",
    "test_causal_conv1d",
    "test_clamp",
    "test_clamped_swiglu",
    "test_equal_experts_go_to_the_lower_id",
    "test_expert_sum",
    "test_gated_activation",
    "test_gated_delta_rule",
    "test_ids_are_valid_whatever_the_logits",
    "test_keep_outliers",
    "test_kv_append",
    "test_layer_norm",
    "test_mix_streams",
    "test_multiply",
    "test_of_equal_positions_the_lower_are_taken",
    "test_rms_norm",
    "test_root_mean_square",
    "test_rope",
    "test_route",
    "test_scale",
    "test_select_positions",
    "test_softcap",
    "test_ssm_scan",
    "test_steps_alone_give_the_same_bits",
    "test_take_columns",
    "test_take_rows",
    "test_what_is_not_finite_makes_its_scale_so",
    "test_xielu",
]
