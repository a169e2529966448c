"""matvec, matvec_rows, matmul, and a split matmul with linears_merge, against NumPy float64 on dequantised weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from kernel_testing import EPSILON
from numpy.typing import NDArray
from test_activation import ACTIVATIONS
from test_activation import reference as activation_reference
from weights import FLOATS, Matrix, make_matrix

from ferrule import _core
from ferrule.formats import FORMATS
from metal.metal_runner import MetalRunner


@dataclass(frozen=True)
class Case:
    rows: int
    n: int
    k: int
    bias: bool = False
    residual: bool = False

    def __str__(self) -> str:
        extras = "".join(f"-{name}" for name in ("bias", "residual") if getattr(self, name))
        return f"{self.rows}x{self.n}x{self.k}{extras}"


SHORT_BLOCKS = [
    Case(1, 1, 32),
    Case(1, 17, 704, bias=True),
    Case(2, 9, 96, residual=True),
    Case(5, 33, 2112, bias=True, residual=True),
    Case(8, 7, 64),
]
LONG_BLOCKS = [
    Case(1, 1, 256),
    Case(1, 17, 2560, bias=True),
    Case(5, 33, 768, bias=True, residual=True),
    Case(8, 7, 512, residual=True),
]
MANY_ROWS = [Case(9, 5, 256), Case(33, 70, 512, bias=True, residual=True)]
FLOAT_ONLY = [Case(1, 9, 1), Case(2, 5, 7), Case(7, 11, 100, residual=True)]
FLOAT_ONLY_MANY_ROWS = [Case(13, 33, 17)]
# Two or three parts, the last one shorter or not even a tile's depth.
SPLIT = {
    "F32": [Case(9, 5, 1063), Case(33, 70, 1537, bias=True, residual=True)],
    "Q4_0": [Case(33, 70, 1568, bias=True, residual=True)],
    "Q4_K": [Case(40, 64, 2560, residual=True)],
}


KERNELS = ("matvec", "matvec_rows", "matmul", "split_matmul")  # the last are two: matmul and linears_merge
# Of one matrix whose product is the result.
PLAIN = {"n_b": 0, "n_c": 0, "scale": 1.0, "activated": 0, "gated": 0, "activation": 0, "up_stride": 0, "up_begin": 0}
PLAIN |= {"split": 0}


def cases(kernel: str, name: str) -> list[Case]:
    if kernel == "matmul":
        return MANY_ROWS + (FLOAT_ONLY_MANY_ROWS if name in FLOATS else [])
    if kernel == "split_matmul":
        return SPLIT.get(name, [])
    few_rows = LONG_BLOCKS if FORMATS[name].block == 256 else SHORT_BLOCKS
    few_rows = [case for case in few_rows if case.k % FORMATS[name].block == 0] + (FLOAT_ONLY if name in FLOATS else [])
    return [case for case in few_rows if kernel == "matvec_rows" or case.rows <= 2]


ALL = [
    pytest.param(kernel, name, case, id=f"{kernel}-{name}-{case}")
    for kernel in KERNELS
    for name in FORMATS
    for case in cases(kernel, name)
]


def run(
    runner: MetalRunner,
    kernel: str,
    name: str,
    operands: dict[str, Any],
    params: dict[str, float],
    rows: int,
    out: Any,
    **options: Any,
) -> Any:
    """As runner.run, in two launches for split_matmul."""
    if kernel != "split_matmul":
        return runner.run(f"{kernel}_{name.lower()}", operands, params, rows, out, **options)
    params = {**params, "split": 1}
    sizes = {size: int(params[size]) for size in ("k", "n", "n_b", "n_c", "gated")}
    results = out if isinstance(out, dict) else {"out": (out, np.float32)}
    partials = {"partials": ((_core.linears_partials(**sizes),), np.float32)}
    first = runner.run(f"matmul_{name.lower()}", operands, params, rows, {**results, **partials}, **options)
    assert all(np.isnan(first[result]).all() for result in results), "what is split is left to linears_merge"
    kept = {key: operands.get(key) for key in ("bias", "residual", "bias_b", "bias_c", "up")}
    return runner.run("linears_merge", {"partials": first["partials"], **kept}, params, rows, out)


@pytest.mark.parametrize(("kernel", "name", "case"), ALL)
def test_product(runner: MetalRunner, kernel: str, name: str, case: Case) -> None:
    rng = np.random.default_rng([FORMATS[name].ggml_type, case.rows, case.n, case.k])
    matrix = make_matrix(name, case.n, case.k, rng)
    x = rng.standard_normal((case.rows, case.k), np.float32)
    bias = rng.standard_normal(case.n, np.float32) if case.bias else None
    residual = rng.standard_normal((case.rows, case.n), np.float32) if case.residual else None
    out = run(
        runner,
        kernel,
        name,
        {"x": x, "weight": matrix.data, "bias": bias, "residual": residual},
        {**PLAIN, "k": case.k, "n": case.n},
        case.rows,
        (case.rows, case.n),
        misalign={"weight": max(2, FORMATS[name].block_bytes if name in FLOATS else 2)},
    )

    expected, bound = product(kernel, name, x, matrix)
    for extra in (bias, residual):
        if extra is not None:
            expected, bound = expected + extra, bound + 2 * EPSILON * np.abs(extra)
    error = np.abs(out - expected)
    assert (error <= bound).all(), f"error {error.max()}, {np.nanmax(error / bound)} times the bound"


def product(
    kernel: str, name: str, x: NDArray[np.float32], matrix: Matrix
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The product and the error it may have, of k sums in any order and a few roundings of decoded weights."""
    k, magnitude = x.shape[1], np.abs(x).astype(np.float64)
    error = (k + 16) * EPSILON * (magnitude @ matrix.magnitudes.T)
    return x.astype(np.float64) @ matrix.values.T, error


@dataclass(frozen=True)
class Together:
    """Several matrices in one launch; sizes are multiples of no tile."""

    sizes: tuple[int, ...]
    biases: tuple[bool, ...]

    def __str__(self) -> str:
        return "+".join(f"{n}{'b' if bias else ''}" for n, bias in zip(self.sizes, self.biases, strict=True))


ROWS = {"matvec": 1, "matvec_rows": 5, "matmul": 9, "split_matmul": 9}


@pytest.mark.parametrize(
    "case",
    [
        Together((65, 9), (False, True)),
        Together((9, 130, 64), (True, False, True)),
        Together((64, 1, 7), (True, True, False)),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["F16", "Q4_K"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_matrices_side_by_side(runner: MetalRunner, kernel: str, name: str, case: Together) -> None:
    rng, rows, k = np.random.default_rng(case.sizes), ROWS[kernel], 1536 if kernel == "split_matmul" else 256
    x = rng.standard_normal((rows, k), np.float32)
    operands: dict[str, Any] = {"x": x}
    scale, written, expected = 0.75, {}, {}
    params = {**PLAIN, "k": k, "scale": scale}
    for suffix, n, has_bias in zip(("", "_b", "_c"), case.sizes, case.biases, strict=False):
        matrix, bias = make_matrix(name, n, k, rng), 3 * rng.standard_normal(n, np.float32)
        operands |= {f"weight{suffix}": matrix.data, f"bias{suffix}": bias if has_bias else None}
        params[f"n{suffix}"], written[f"out{suffix}"] = n, ((rows, n), np.float32)
        values, bound = (scale * part for part in product(kernel, name, x, matrix))
        bound = bound + EPSILON * np.abs(values)
        if has_bias:
            values, bound = values + bias, bound + 2 * EPSILON * np.abs(bias)
        expected[f"out{suffix}"] = values, bound
    found = run(runner, kernel, name, operands, params, rows, written)
    for out, (values, bound) in expected.items():
        assert (np.abs(found[out] - values) <= bound).all(), out


def with_kernels(*activations: str) -> list[tuple[str, str]]:
    """(kernel, activation): only one for what is split, which leaves activations to the same code."""
    pairs = [(kernel, activation) for kernel in KERNELS[:3] for activation in activations]
    return [*pairs, ("split_matmul", activations[0])]


@pytest.mark.parametrize(("kernel", "activation"), with_kernels("silu", "gelu_tanh", "relu2"))
@pytest.mark.parametrize(("name", "k", "bias"), [("BF16", 100, False), ("Q8_0", 96, True), ("Q6_K", 256, False)])
def test_gated(runner: MetalRunner, kernel: str, name: str, k: int, bias: bool, activation: str) -> None:
    n, rows, rng = 67, ROWS[kernel], np.random.default_rng(k)
    k += 1024 if kernel == "split_matmul" else 0
    gate, up = make_matrix(name, n, k, rng), make_matrix(name, n, k, rng)
    # So that the activation sees values of about 1.
    x = (rng.standard_normal((rows, k)) / np.linalg.norm(gate.values, axis=1).mean()).astype(np.float32)
    biases = {key: rng.standard_normal(n, np.float32) if bias else None for key in ("bias", "bias_b")}
    operands = {"x": x, "weight": gate.data, "weight_b": up.data, **biases}
    params = {**PLAIN, "k": k, "n": n, "n_b": n, "gated": 1, "activation": ACTIVATIONS.index(activation)}
    out = run(runner, kernel, name, operands, params, rows, (rows, n))

    (g, g_error), (u, u_error) = (product(kernel, name, x, matrix) for matrix in (gate, up))
    if bias:
        g, u = g + biases["bias"], u + biases["bias_b"]
        g_error, u_error = (error + 4 * EPSILON for error in (g_error, u_error))
    activated, error = activation_reference(g, activation)
    steepest = 1.2 if activation != "relu2" else 2 * (np.abs(g) + g_error)
    error = error + steepest * g_error + EPSILON * np.abs(activated)
    bound = error * (np.abs(u) + u_error) + np.abs(activated) * u_error
    assert (np.abs(out - activated * u) <= bound).all()


@pytest.mark.parametrize(("kernel", "activation"), with_kernels("gelu_tanh", "relu2"))
@pytest.mark.parametrize(("name", "k", "scale", "bias"), [("BF16", 100, 1.0, True), ("Q8_0", 96, -0.3, False)])
@pytest.mark.parametrize("up_begin", [None, 0, 5])
def test_activated(
    runner: MetalRunner,
    kernel: str,
    name: str,
    k: int,
    scale: float,
    bias: bool,
    activation: str,
    up_begin: int | None,
) -> None:
    n, rows, rng = 67, ROWS[kernel], np.random.default_rng(k)
    k += 1024 if kernel == "split_matmul" else 0
    matrix = make_matrix(name, n, k, rng)
    # So that the activation sees values of about 1.
    x = (rng.standard_normal((rows, k)) / np.linalg.norm(matrix.values, axis=1).mean()).astype(np.float32)
    bias_values = rng.standard_normal(n, np.float32) if bias else None
    up = None if up_begin is None else rng.standard_normal((rows, n + up_begin + 2), np.float32)
    params = {**PLAIN, "k": k, "n": n, "scale": scale, "activated": 1, "activation": ACTIVATIONS.index(activation)}
    if up is not None:
        params |= {"up_stride": up.shape[1], "up_begin": up_begin}
    operands = {"x": x, "weight": matrix.data, "bias": bias_values, "up": up}
    out = run(runner, kernel, name, operands, params, rows, (rows, n))

    values, value_error = product(kernel, name, x, matrix)
    values, value_error = scale * values, abs(scale) * value_error + EPSILON * np.abs(scale * values)
    if bias_values is not None:
        values, value_error = values + bias_values, value_error + 4 * EPSILON
    expected, bound = activation_reference(values, activation)
    steepest = 1.2 if activation != "relu2" else 2 * (np.abs(values) + value_error)
    bound = bound + steepest * value_error + EPSILON * np.abs(expected)
    if up is not None:
        factors = up[:, up_begin : up_begin + n].astype(np.float64)
        expected, bound = expected * factors, bound * np.abs(factors) + EPSILON * np.abs(expected * factors)
    assert (np.abs(out - expected) <= bound).all()


@pytest.mark.parametrize("kernel", KERNELS[:3])
@pytest.mark.parametrize("name", ["F16", "Q4_K"])
def test_the_result_may_replace_the_residual(runner: MetalRunner, kernel: str, name: str) -> None:
    rng = np.random.default_rng(0)
    matrix = make_matrix(name, 21, 256, rng)
    x, residual = rng.standard_normal((1, 256), np.float32), rng.standard_normal((1, 21), np.float32)
    operands = {"x": x, "weight": matrix.data, "residual": residual}
    params = {**PLAIN, "k": 256, "n": 21}
    expected = runner.run(f"{kernel}_{name.lower()}", operands, params, 1, (1, 21))
    out = runner.run(f"{kernel}_{name.lower()}", operands, params, 1, (1, 21), alias={"out": "residual"})
    np.testing.assert_array_equal(out, expected)
