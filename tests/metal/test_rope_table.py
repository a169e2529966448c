"""The CPU's tests of tables of rotations, with the errors of float32."""

import numpy as np
import pytest
from kernel_testing import EPSILON
from test_rope_table import (
    Check,
    test_dynamic_rope_table,
    test_long_rope_table,
    test_rope_table,
    test_sectioned_rope_table,
)

__all__ = ["test_dynamic_rope_table", "test_long_rope_table", "test_rope_table", "test_sectioned_rope_table"]


@pytest.fixture
def check() -> Check:
    """As the CPU's."""

    def check(
        out: np.ndarray, angles: np.ndarray, scale: float | np.ndarray, float_error: float | np.ndarray = 0
    ) -> None:
        expected = scale * np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
        # The reduced angle, at most pi, is rounded three times; the functions and the scale round too.
        errors = np.broadcast_to(3 * 2.0**-23 + 3 * EPSILON + float_error, angles.shape)
        assert (np.abs(out - expected) <= np.concatenate([errors, errors], axis=1) * scale).all()

    return check
