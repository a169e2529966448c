"""matvec_* and matmul_* against NumPy float64 on dequantised weights and activations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from kernel_testing import EPSILON, Runner
from numpy.typing import NDArray
from quantized_rows import QuantizedRows
from weights import FLOATS, QUANTIZABLE, QUANTIZED, Matrix, make_matrix

from ferrule.formats import FORMATS


@dataclass(frozen=True)
class Case:
    rows: int
    n: int
    k: int
    bias: bool = False
    residual: bool = False
    scale: float = 1.0
    planes: int = 2  # of quantised activations

    def __str__(self) -> str:
        extras = "".join(f"-{name}" for name in ("bias", "residual") if getattr(self, name))
        return f"{self.rows}x{self.n}x{self.k}{extras}-scale{self.scale:g}-planes{self.planes}"


SHORT_BLOCKS = [
    Case(1, 1, 64),
    Case(1, 17, 128, bias=True),
    Case(2, 33, 576, residual=True),
    Case(3, 16, 640, bias=True, residual=True, scale=0.3),
    Case(5, 7, 2112),
    Case(8, 20, 192, scale=-2.0),
    Case(9, 5, 128),
    Case(33, 35, 320, bias=True, residual=True),
    Case(5, 18, 576, planes=1),
    Case(17, 5, 192, bias=True, planes=1),
]
LONG_BLOCKS = [
    Case(1, 1, 256),
    Case(2, 33, 512, bias=True),
    Case(3, 16, 768, bias=True, residual=True, scale=0.3),
    Case(9, 5, 1024),
    Case(33, 35, 256, residual=True),
    Case(1, 6, 256, planes=1),
    Case(13, 18, 768, planes=1),
]
ODD_ROWS = [Case(1, 18, 32), Case(4, 6, 96, bias=True), Case(9, 6, 224)]  # not for NVFP4, whose blocks have 64
FLOAT_ONLY = [Case(1, 9, 1), Case(2, 5, 7), Case(7, 11, 100, residual=True), Case(13, 33, 16)]


def cases(name: str) -> list[Case]:
    if name in FLOATS:
        return SHORT_BLOCKS + FLOAT_ONLY
    return {32: SHORT_BLOCKS + ODD_ROWS, 64: SHORT_BLOCKS, 256: LONG_BLOCKS}[FORMATS[name].block]


ALL = [pytest.param(name, case, id=f"{name}-{case}") for name in FORMATS for case in cases(name)]


@dataclass(frozen=True, eq=False)
class Problem:
    name: str
    case: Case
    x: NDArray[np.uint8] | NDArray[np.float32]  # as the kernel takes it
    values: NDArray[np.float64]  # of x
    matrix: Matrix
    bias: NDArray[np.float32] | None
    residual: NDArray[np.float32] | None

    @classmethod
    def make(cls, name: str, case: Case, *, quantized: bool = False) -> Problem:
        rng = np.random.default_rng([FORMATS[name].ggml_type, case.rows, case.n, case.k])
        matrix = make_matrix(name, case.n, case.k, rng, quantized=quantized)
        activations = rng.standard_normal((case.rows, case.k), np.float32)
        if name in FLOATS:
            x, values = activations, activations.astype(np.float64)
        else:
            quantized = QuantizedRows.quantize(activations, case.planes)
            x, values = quantized.to_bytes(), quantized.values()
        bias = rng.standard_normal(case.n, np.float32) if case.bias else None
        residual = rng.standard_normal((case.rows, case.n), np.float32) if case.residual else None
        return cls(name, case, x, values, matrix, bias, residual)

    @property
    def params(self) -> dict[str, float]:
        planes = 0 if self.name in FLOATS else self.case.planes
        return {"k": self.case.k, "n": self.case.n, "scale": self.case.scale, "planes": planes}

    def run(self, runner: Runner, kernel: str, rows: slice = slice(None)) -> NDArray[np.float32]:
        case = self.case
        residual = self.residual[rows] if self.residual is not None else None
        operands = {"x": self.x[rows], "weight": self.matrix.data, "bias": self.bias, "residual": residual}
        n_rows = len(self.x[rows])
        out: NDArray[np.float32] = runner.run(
            f"{kernel}_{self.name.lower()}",
            operands,
            self.params,
            n_rows,
            (n_rows, case.n),
            misalign={"weight": FORMATS[self.name].block_bytes if self.name in FLOATS else 1},
        )
        return out

    def expected_and_bound(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        case = self.case
        product = self.values @ self.matrix.values.T
        # Float weights: each of 16 lanes adds k / 16 products, then 4 halvings. Quantised ones: each of 4 lanes adds,
        # per group, 1 or 2 scaled sums and as many minimums, then 3 lanes; a scale takes 3 roundings more, and the
        # decoded value that we compare with 3 of its own. Finally scale, bias and residual.
        roundings = case.k / 16 + 4 if self.name in FLOATS else case.k / 128 * 4 + 3 + 6
        magnitudes = np.abs(self.values) @ self.matrix.magnitudes.T
        expected, bound = case.scale * product, (roundings + 3) * abs(case.scale) * magnitudes
        for extra in (self.bias, self.residual):
            if extra is not None:
                expected, bound = expected + extra, bound + 2 * np.abs(extra)
        # A product of scales may be subnormal: its error of 2^-150 counts for every product of codes.
        return expected, 1.01 * EPSILON * bound + case.k * 2.0**14 * 2.0**-150


def assert_close(problem: Problem, out: NDArray[np.float32]) -> None:
    expected, bound = problem.expected_and_bound()
    error = np.abs(out - expected)
    assert (error <= bound).all(), f"error {error.max()}, {np.nanmax(error / bound)} times the bound"


@pytest.mark.parametrize(("name", "case"), ALL)
def test_both_kernels_match_float64_and_each_other(runner: Runner, name: str, case: Case) -> None:
    problem = Problem.make(name, case)
    matvec, matmul = problem.run(runner, "matvec"), problem.run(runner, "matmul")
    assert_close(problem, matvec)
    np.testing.assert_array_equal(matvec.view(np.uint32), matmul.view(np.uint32))


@pytest.mark.parametrize("name", QUANTIZABLE)
def test_quantised_weights(runner: Runner, name: str) -> None:
    problem = Problem.make(name, Case(4, 20, 512), quantized=True)
    assert_close(problem, problem.run(runner, "matvec"))
    assert_close(problem, problem.run(runner, "matmul"))


@pytest.mark.parametrize("name", FORMATS)
def test_a_row_does_not_depend_on_its_batch(runner: Runner, name: str) -> None:
    problem = Problem.make(name, Case(11, 18, 256, residual=True))
    batch = problem.run(runner, "matmul")
    for rows in (slice(0, 1), slice(3, 5), slice(10, 11), slice(2, 11)):
        for kernel in ("matvec", "matmul"):
            np.testing.assert_array_equal(
                problem.run(runner, kernel, rows).view(np.uint32), batch[rows].view(np.uint32)
            )


@pytest.mark.parametrize("bias", [False, True])
def test_results_stored_past_the_caches(runner: Runner, bias: bool) -> None:
    """More than 1 MiB of them."""
    problem = Problem.make("Q4_0", Case(259, 1024, 32, bias=bias, planes=1))
    assert_close(problem, problem.run(runner, "matmul"))


@pytest.mark.parametrize("kernel", ["matvec", "matmul"])
@pytest.mark.parametrize("name", [*FLOATS, "Q4_0", "Q4_K"])
def test_the_result_may_replace_the_residual(runner: Runner, name: str, kernel: str) -> None:
    problem = Problem.make(name, Case(3, 21, 256, residual=True))
    assert problem.residual is not None
    out = runner.run(
        f"{kernel}_{name.lower()}",
        {"x": problem.x, "weight": problem.matrix.data, "residual": problem.residual},
        problem.params,
        3,
        problem.residual.shape,
        alias={"out": "residual"},
    )
    np.testing.assert_array_equal(out, problem.run(runner, kernel))


@pytest.mark.parametrize("kernel", ["matvec", "matmul"])
@pytest.mark.parametrize("name", QUANTIZED)
def test_nan_activations_stay_in_their_row(runner: Runner, name: str, kernel: str) -> None:
    case = Case(3, 18, 512)
    problem = Problem.make(name, case)
    expected = problem.run(runner, kernel)
    x = QuantizedRows.from_bytes(problem.x.copy(), case.k, case.planes)
    x.scale[1, 5] = x.scaled_sum[1, 5] = np.nan
    problem.x[:] = x.to_bytes()
    out = problem.run(runner, kernel)
    assert np.isnan(out[1]).all()
    np.testing.assert_array_equal(out[[0, 2]], expected[[0, 2]])
