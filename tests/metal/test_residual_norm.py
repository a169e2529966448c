"""residual_norm against NumPy float64."""

import numpy as np
import pytest
from kernel_testing import EPSILON
from test_rms_norm import EPS, reference

from metal.metal_runner import MetalRunner


@pytest.mark.parametrize("follows", [True, False])
@pytest.mark.parametrize(
    ("rows", "width", "weights", "offset", "factor"),
    [(1, 1, 2, 0.0, 1.0), (3, 640, 2, 1.0, -0.3), (2, 5003, 0, 0.0, 1.0)],
)
def test_residual_norm(
    runner: MetalRunner, rows: int, width: int, weights: int, offset: float, factor: float, follows: bool
) -> None:
    rng = np.random.default_rng(width)
    x, residual = rng.standard_normal((2, rows, width), np.float32)
    weight, next_weight = rng.standard_normal((2, width), np.float32) if weights else (None, None)
    operands = {"x": x, "weight": weight, "residual": residual, "next_weight": next_weight if follows else None}
    params = {"width": width, "eps": EPS, "weight_offset": offset, "factor": factor}
    written = dict.fromkeys(("out", *(["next"] * follows)), ((rows, width), np.float32))
    found = runner.run("residual_norm", operands, params, rows, written)
    out, following = (found["out"], found["next"]) if follows else (found, None)

    normed, error = reference(x, weight, offset), (width / 32 + 5) * EPSILON
    largest = 1.0 if weight is None else np.abs(weight) + abs(offset)
    bound = error * largest * np.abs(reference(x, None, 0.0)) + 2 * EPSILON * np.abs(residual + normed)
    assert (np.abs(out - factor * (residual + normed)) <= abs(factor) * bound).all()
    if following is not None:
        expected = reference(out, next_weight, offset)
        largest = 1.0 if next_weight is None else np.abs(next_weight) + abs(offset)
        assert (np.abs(following - expected) <= error * largest * np.abs(reference(out, None, 0.0))).all()
