"""layer_norm against NumPy float64; layer_norm_quantize against its result, quantised in NumPy."""

from dataclasses import dataclass

import numpy as np
import pytest
from kernel_testing import EPSILON, Runner
from quantized_rows import quantized_bytes, row_bytes


@dataclass(frozen=True)
class Case:
    rows: int
    groups: int
    width: int
    weight: bool = True
    bias: bool = True
    offset: float = 0.0
    mean: float = 0.0  # of the input, whose deviation is 1

    def __str__(self) -> str:
        given = [name for name in ("weight", "bias") if getattr(self, name)]
        return "-".join([f"{self.rows}x{self.groups}x{self.width}", *given, f"w+{self.offset:g}", f"mean{self.mean:g}"])


CASES = [
    Case(1, 1, 1),
    Case(2, 1, 7),
    Case(3, 1, 64, bias=False),
    Case(5, 1, 640, offset=1.0),
    Case(2, 3, 100, mean=-3.0),
    Case(3, 4, 256, weight=False, bias=False),
    Case(1, 1, 5000, mean=100.0),
    Case(2, 1, 96, weight=False),
]
EPS = 1e-5


def arguments(case: Case) -> tuple[dict[str, np.ndarray | None], dict[str, float]]:
    """Operands and parameters."""
    rng = np.random.default_rng(case.width)
    x = (case.mean + rng.standard_normal((case.rows, case.groups, case.width))).astype(np.float32)
    weight = rng.standard_normal(case.width).astype(np.float32) if case.weight else None
    bias = rng.standard_normal(case.width).astype(np.float32) if case.bias else None
    params = {"width": case.width, "groups": case.groups, "eps": EPS, "weight_offset": case.offset, "planes": 0}
    return {"x": x, "weight": weight, "bias": bias}, params


@pytest.mark.parametrize("case", CASES, ids=str)
def test_layer_norm(runner: Runner, case: Case) -> None:
    operands, params = arguments(case)
    out = runner.run("layer_norm", operands, params, case.rows, (case.rows, case.groups, case.width))

    x = operands["x"].astype(np.float64)
    centred = x - x.mean(-1, keepdims=True)
    normed = centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + EPS)
    factor = 1.0 if operands["weight"] is None else case.offset + operands["weight"].astype(np.float64)
    bias = 0.0 if operands["bias"] is None else operands["bias"].astype(np.float64)
    expected = normed * factor + bias
    # The mean is off by a rounding per value of a lane, the sum of squares by as many, which its root halves; what the
    # variance and eps leave of x is at most 1 / sqrt(eps) times as large.
    lane = case.width / 16 + 1
    mean_error = (lane + 2) * EPSILON * np.abs(x).mean(-1, keepdims=True)
    deviation = np.sqrt((centred * centred).mean(-1, keepdims=True) + EPS)
    bound = np.abs(factor) * (mean_error / deviation * (1 + np.abs(normed)) + (lane / 2 + 7) * EPSILON * np.abs(normed))
    assert (np.abs(out - expected) <= bound + 2 * EPSILON * np.abs(bias) + EPSILON * np.abs(expected)).all()


@pytest.mark.parametrize("planes", [0, 1, 2])
@pytest.mark.parametrize("case", [case for case in CASES if case.groups == 1], ids=str)
def test_layer_norm_quantize(runner: Runner, case: Case, planes: int) -> None:
    operands, params = arguments(case)
    normed = runner.run("layer_norm", operands, params, case.rows, (case.rows, case.width))
    shape = (case.rows, row_bytes(case.width, planes))
    out = runner.run(
        "layer_norm_quantize", operands, params | {"planes": planes}, case.rows, {"out": (shape, np.uint8)}
    )
    np.testing.assert_array_equal(out, quantized_bytes(normed, planes))
