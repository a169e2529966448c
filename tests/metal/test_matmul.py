"""matvec, matvec_rows and matmul against NumPy float64 on dequantised weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from kernel_testing import EPSILON
from numpy.typing import NDArray
from weights import FLOATS, make_matrix

from ferrule.formats import FORMATS
from metal.formats import METAL_FORMATS
from metal.metal_runner import MetalRunner


@dataclass(frozen=True)
class Case:
    rows: int
    n: int
    k: int
    bias: bool = False
    residual: bool = False
    scale: float = 1.0

    def __str__(self) -> str:
        extras = "".join(f"-{name}" for name in ("bias", "residual") if getattr(self, name))
        return f"{self.rows}x{self.n}x{self.k}{extras}-scale{self.scale:g}"


SHORT_BLOCKS = [
    Case(1, 1, 32),
    Case(1, 17, 704, bias=True),
    Case(2, 9, 96, residual=True),
    Case(5, 33, 2112, bias=True, residual=True, scale=0.3),
    Case(8, 7, 64, scale=-2.0),
]
LONG_BLOCKS = [
    Case(1, 1, 256),
    Case(1, 17, 2560, bias=True),
    Case(5, 33, 768, bias=True, residual=True, scale=0.3),
    Case(8, 7, 512, residual=True),
]
MANY_ROWS = [Case(9, 5, 256), Case(33, 70, 512, bias=True, residual=True, scale=0.3)]
FLOAT_ONLY = [Case(1, 9, 1), Case(2, 5, 7), Case(7, 11, 100, residual=True)]
FLOAT_ONLY_MANY_ROWS = [Case(13, 33, 17)]

KERNELS = ("matvec", "matvec_rows", "matmul")


def cases(kernel: str, name: str) -> list[Case]:
    if kernel == "matmul":
        return MANY_ROWS + (FLOAT_ONLY_MANY_ROWS if name in FLOATS else [])
    few_rows = LONG_BLOCKS if FORMATS[name].block == 256 else SHORT_BLOCKS
    few_rows = [case for case in few_rows if case.k % FORMATS[name].block == 0] + (FLOAT_ONLY if name in FLOATS else [])
    return [case for case in few_rows if kernel == "matvec_rows" or case.rows <= 2]


ALL = [
    pytest.param(kernel, name, case, id=f"{kernel}-{name}-{case}")
    for kernel in KERNELS
    for name in METAL_FORMATS
    for case in cases(kernel, name)
]


@pytest.mark.parametrize(("kernel", "name", "case"), ALL)
def test_product(runner: MetalRunner, kernel: str, name: str, case: Case) -> None:
    rng = np.random.default_rng([FORMATS[name].ggml_type, case.rows, case.n, case.k])
    matrix = make_matrix(name, case.n, case.k, rng)
    x = rng.standard_normal((case.rows, case.k), np.float32)
    bias = rng.standard_normal(case.n, np.float32) if case.bias else None
    residual = rng.standard_normal((case.rows, case.n), np.float32) if case.residual else None
    out = runner.run(
        f"{kernel}_{name.lower()}",
        {"x": x, "weight": matrix.data, "bias": bias, "residual": residual},
        {"k": case.k, "n": case.n, "scale": case.scale, "planes": 0},
        case.rows,
        (case.rows, case.n),
        misalign={"weight": max(2, FORMATS[name].block_bytes if name in FLOATS else 2)},
    )

    expected = case.scale * (x.astype(np.float64) @ matrix.values.T)
    magnitudes = np.abs(x).astype(np.float64) @ matrix.magnitudes.T
    bound = abs(case.scale) * error_of_product(kernel, name, case.k, magnitudes, x, matrix.values)
    for extra in (bias, residual):
        if extra is not None:
            expected, bound = expected + extra, bound + 2 * EPSILON * np.abs(extra)
    error = np.abs(out - expected)
    assert (error <= bound).all(), f"error {error.max()}, {np.nanmax(error / bound)} times the bound"


def error_of_product(
    kernel: str, name: str, k: int, magnitudes: NDArray[np.float64], x: NDArray[np.float32], values: NDArray[np.float64]
) -> NDArray[np.float64]:
    """A sum of k products in any order, plus a few roundings of decoded weights; matmul rounds some weights to f16."""
    error = (k + 16) * EPSILON * magnitudes
    if kernel == "matmul" and name not in ("F32", "F16", "BF16"):
        error += 2.0**-11 * (np.abs(x).astype(np.float64) @ np.abs(values).T) + k * 2.0**-25 * np.abs(x).max()
    return error


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", ["F16", "Q4_K"])
def test_the_result_may_replace_the_residual(runner: MetalRunner, kernel: str, name: str) -> None:
    rng = np.random.default_rng(0)
    matrix = make_matrix(name, 21, 256, rng)
    x, residual = rng.standard_normal((1, 256), np.float32), rng.standard_normal((1, 21), np.float32)
    operands = {"x": x, "weight": matrix.data, "residual": residual}
    params = {"k": 256, "n": 21, "scale": 1.0, "planes": 0}
    expected = runner.run(f"{kernel}_{name.lower()}", operands, params, 1, (1, 21))
    out = runner.run(f"{kernel}_{name.lower()}", operands, params, 1, (1, 21), alias={"out": "residual"})
    np.testing.assert_array_equal(out, expected)
