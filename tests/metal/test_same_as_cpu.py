"""Ops whose kernels do the same on Metal as on the CPU: the CPU's own tests."""

from test_activation import test_activation, test_gated_activation
from test_elementwise import test_add, test_add_in_place, test_scale, test_softcap, test_take_rows
from test_embedding import test_a_token_outside_the_table_gives_nan
from test_kv_append import test_kv_append
from test_rms_norm import test_rms_norm
from test_rope import test_rope

__all__ = [
    "test_a_token_outside_the_table_gives_nan",
    "test_activation",
    "test_add",
    "test_add_in_place",
    "test_gated_activation",
    "test_kv_append",
    "test_rms_norm",
    "test_rope",
    "test_scale",
    "test_softcap",
    "test_take_rows",
]
