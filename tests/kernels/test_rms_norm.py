"""rms_norm against NumPy float64; rms_norm_quantize against its result, quantised in NumPy."""

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
    offset: float = 0.0
    scale: float = 1.0  # of the input

    def __str__(self) -> str:
        weight = f"w+{self.offset:g}" if self.weight else "no-weight"
        return f"{self.rows}x{self.groups}x{self.width}-{weight}-scale{self.scale:g}"


CASES = [
    Case(1, 1, 1),
    Case(2, 1, 7),
    Case(3, 1, 64),
    Case(5, 1, 640, offset=1.0),
    Case(2, 3, 100),
    Case(3, 4, 256, weight=False),
    Case(1, 1, 5000, scale=1e4),
    Case(2, 1, 96, scale=1e-6),  # eps matters
]
EPS = 1e-6


def reference(x: np.ndarray, weight: np.ndarray | None, offset: float) -> np.ndarray:
    x = x.astype(np.float64)
    normed = x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS)
    return normed if weight is None else normed * (offset + weight.astype(np.float64))


def arguments(case: Case) -> tuple[dict[str, np.ndarray | None], dict[str, float], int]:
    """Operands, parameters and rows."""
    rng = np.random.default_rng(case.width)
    x = (case.scale * rng.standard_normal((case.rows, case.groups, case.width))).astype(np.float32)
    weight = rng.standard_normal(case.width).astype(np.float32) if case.weight else None
    params = {"width": case.width, "groups": case.groups, "eps": EPS, "weight_offset": case.offset, "planes": 0}
    return {"x": x, "weight": weight}, params, case.rows


@pytest.mark.parametrize("case", CASES, ids=str)
def test_rms_norm(runner: Runner, case: Case) -> None:
    operands, params, rows = arguments(case)
    x, weight = operands["x"], operands["weight"]
    out = runner.run("rms_norm", operands, params, rows, x.shape)

    # Per lane of 16 the sum of squares rounds width / 16 times and the mean enters by its root; a few roundings follow.
    expected = reference(x, weight, case.offset)
    bound = (case.width / 32 + 5) * EPSILON * np.abs(reference(x, None, 0.0))
    if weight is not None:
        bound *= np.abs(weight) + abs(case.offset)
    assert (np.abs(out - expected) <= bound).all()


@pytest.mark.parametrize("planes", [0, 1, 2])
@pytest.mark.parametrize("case", [case for case in CASES if case.groups == 1], ids=str)
def test_rms_norm_quantize(runner: Runner, case: Case, planes: int) -> None:
    operands, params, rows = arguments(case)
    normed = runner.run("rms_norm", operands, params, rows, (rows, case.width))
    shape = (rows, row_bytes(case.width, planes))
    out = runner.run("rms_norm_quantize", operands, params | {"planes": planes}, rows, {"out": (shape, np.uint8)})
    np.testing.assert_array_equal(out, quantized_bytes(normed, planes))
