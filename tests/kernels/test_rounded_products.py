"""Products of operands rounded to bfloat16 against NumPy float64, on the rounded operands and on those as they were."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from kernel_testing import Runner, dot_bound
from numpy.typing import NDArray
from quantized_rows import quantized_bytes, round_to_bf16
from weights import make_matrix

pytestmark = pytest.mark.needs_kernel("matmul_bf16_rounded")

UNIT = 2.0**-9  # the relative error of rounding to bfloat16


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


CASES = [
    Case(1, 1, 1),
    Case(1, 17, 64, bias=True),
    Case(2, 33, 31, residual=True),
    Case(3, 16, 100, bias=True, residual=True, scale=0.3),
    Case(4, 15, 33),
    Case(8, 40, 576, scale=-2.0),
    Case(9, 5, 7),
    Case(13, 34, 1000),
    Case(33, 35, 130, bias=True, residual=True),
]


@dataclass(frozen=True, eq=False)
class Problem:
    """`exact` and `rounded`: float64 (activations, weights) before and after rounding."""

    name: str
    case: Case
    x: NDArray[np.uint8]
    weight: NDArray[np.uint8]
    exact: tuple[NDArray[np.float64], NDArray[np.float64]]
    rounded: tuple[NDArray[np.float64], NDArray[np.float64]]
    bias: NDArray[np.float32] | None
    residual: NDArray[np.float32] | None

    @classmethod
    def make(cls, name: str, case: Case) -> Problem:
        rng = np.random.default_rng([case.rows, case.n, case.k])
        matrix = make_matrix(name, case.n, case.k, rng)
        x = rng.standard_normal((case.rows, case.k), np.float32)
        bias = rng.standard_normal(case.n, np.float32) if case.bias else None
        residual = rng.standard_normal((case.rows, case.n), np.float32) if case.residual else None
        exact = x.astype(np.float64), matrix.values
        rounded = tuple(round_to_bf16(operand.astype(np.float32)).astype(np.float64) for operand in exact)
        return cls(name, case, quantized_bytes(x, 0), matrix.data, exact, (rounded[0], rounded[1]), bias, residual)

    def run(self, runner: Runner, kernel: str, rows: slice = slice(None)) -> NDArray[np.float32]:
        case, n_rows = self.case, len(self.x[rows])
        residual = self.residual[rows] if self.residual is not None else None
        operands = {"x": self.x[rows], "weight": self.weight, "bias": self.bias, "residual": residual}
        params = {"k": case.k, "n": case.n, "scale": case.scale, "planes": 0}
        name = f"{kernel}_{self.name.lower()}_rounded"
        out: NDArray[np.float32] = runner.run(name, operands, params, n_rows, (n_rows, case.n), misalign={"weight": 2})
        return out

    def expected(self, operands: tuple[NDArray[np.float64], NDArray[np.float64]]) -> NDArray[np.float64]:
        product = self.case.scale * (operands[0] @ operands[1].T)
        for extra in (self.bias, self.residual):
            product = product if extra is None else product + extra
        return product

    def magnitudes(self) -> NDArray[np.float64]:
        """Sums of what a rounding may meet, but for the sum of products after them: scale, bias, residual."""
        return np.abs(self.case.scale) * (np.abs(self.rounded[0]) @ np.abs(self.rounded[1]).T)


def assert_close(problem: Problem, out: NDArray[np.float32]) -> None:
    magnitudes = problem.magnitudes()
    extras = sum(np.abs(extra) for extra in (problem.bias, problem.residual) if extra is not None)
    bound = dot_bound(problem.case.k + 3, magnitudes + extras)
    assert (np.abs(out - problem.expected(problem.rounded)) <= bound).all()
    # BF16 weights are what they were: only activations are off by up to one unit. Both are with F16.
    unit = UNIT * (1 if problem.name == "BF16" else 2) * 1.01
    assert (np.abs(out - problem.expected(problem.exact)) <= bound + unit * magnitudes * (1 + 2 * UNIT)).all()


@pytest.mark.parametrize("name", ["F16", "BF16"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_both_kernels_match_float64_and_each_other(runner: Runner, name: str, case: Case) -> None:
    problem = Problem.make(name, case)
    matvec, matmul = problem.run(runner, "matvec"), problem.run(runner, "matmul")
    assert_close(problem, matvec)
    np.testing.assert_array_equal(matvec.view(np.uint32), matmul.view(np.uint32))


@pytest.mark.parametrize("name", ["F16", "BF16"])
def test_a_row_does_not_depend_on_its_batch(runner: Runner, name: str) -> None:
    problem = Problem.make(name, Case(21, 18, 200, residual=True))
    batch = problem.run(runner, "matmul")
    for rows in (slice(0, 1), slice(3, 5), slice(4, 7), slice(20, 21), slice(2, 21)):
        for kernel in ("matvec", "matmul"):
            np.testing.assert_array_equal(
                problem.run(runner, kernel, rows).view(np.uint32), batch[rows].view(np.uint32)
            )


@pytest.mark.parametrize("kernel", ["matvec", "matmul"])
@pytest.mark.parametrize("name", ["F16", "BF16"])
def test_numbers_that_are_not_finite_stay_in_their_row(runner: Runner, name: str, kernel: str) -> None:
    problem = Problem.make(name, Case(5, 20, 40))
    expected = problem.run(runner, kernel)
    problem.x.view(np.uint16)[1, 5] = 0x7FC0
    problem.weight.view(np.uint16)[3, 39] = {"F16": 0x7C00, "BF16": 0x7F80}[name]
    out = problem.run(runner, kernel)
    assert np.isnan(out[1]).all()
    assert not np.isfinite(out[:, 3]).any()
    others = np.ix_([0, 2, 3, 4], [j for j in range(20) if j != 3])
    np.testing.assert_array_equal(out[others], expected[others])


@pytest.mark.parametrize(("rows", "experts", "slots"), [(3, 4, 2), (40, 3, 2)])
@pytest.mark.parametrize("name", ["F16", "BF16"])
def test_experts_sum_like_matvec(runner: Runner, name: str, rows: int, experts: int, slots: int) -> None:
    n, k = 35, 70
    rng = np.random.default_rng(rows)
    matrices = [make_matrix(name, n, k, rng).data for _ in range(experts)]
    ids = np.stack([rng.permutation(experts)[:slots] for _ in range(rows)])
    weights = rng.uniform(0.1, 1, ids.shape).astype(np.float32)
    x = quantized_bytes(rng.standard_normal((rows, k), np.float32), 0)
    params = {"k": k, "n": n, "experts": experts, "slots": slots, "x_slots": 1, "weighted": 1, "planes": 0}
    operands = {"x": x, "routes": np.concatenate([ids.astype(np.float32), weights], axis=1), "weight": matrices}
    kernel = f"{name.lower()}_rounded"
    out = runner.run(f"expert_linear_{kernel}", operands, params, rows, (rows, slots, n), misalign={"weight": 2})
    matmul = {"k": k, "n": n, "scale": 1.0, "planes": 0}
    for e in range(experts):
        chosen, slot = np.nonzero(ids == e)
        alone = {"x": x[chosen], "weight": matrices[e]}
        same = runner.run(f"matvec_{kernel}", alone, matmul, len(chosen), (len(chosen), n))
        np.testing.assert_array_equal(out[chosen, slot], same * weights[chosen, slot, None])
