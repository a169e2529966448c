"""expert_order, and expert_linear in its two kernels, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import test_expert_linear as cpu
from kernel_testing import EPSILON
from numpy.typing import NDArray
from weights import FLOATS, make_matrix

from ferrule.formats import FORMATS
from metal.metal_runner import MetalRunner
from metal_host.host import MetalFaultError, MetalHost

TILE_ROWS = 32

FEW_ROWS = [
    cpu.Case(1, 8, 2, 33, 256),
    cpu.Case(2, 5, 5, 18, 256, per_slot=True, routed=False),
    cpu.Case(8, 60, 4, 7, 512, per_slot=True, weighted=True, bias=True),
]
MANY_ROWS = [
    cpu.Case(9, 4, 2, 70, 256, bias=True),
    cpu.Case(33, 3, 3, 17, 256, per_slot=True, routed=False),
    cpu.Case(80, 6, 2, 35, 256, weighted=True, bias=True),
]
FLOAT_ONLY = {"matvec": [cpu.Case(5, 3, 2, 5, 7)], "matmul": [cpu.Case(9, 2, 1, 16, 100)]}
ALL = [
    pytest.param(kernel, name, case, id=f"{kernel}-{name}-{case}")
    for kernel, cases in (("matvec", FEW_ROWS), ("matmul", MANY_ROWS))
    for name in FORMATS
    for case in cases + FLOAT_ONLY[kernel] * (name in FLOATS)
]


def order_of(runner: MetalRunner, case: cpu.Case, routes: NDArray[np.float32] | None) -> tuple[Any, Any]:
    """(slots in the order of their experts, tiles [.., 3]) as the kernel finds them."""
    n_slots = case.rows * case.slots
    n_tiles = n_slots // TILE_ROWS + case.experts
    out = {"out": ((n_slots + 3 * n_tiles,), np.uint32)}
    found = runner.run(
        "expert_order", {"routes": routes}, {"experts": case.experts, "slots": case.slots}, case.rows, out
    )
    return found[:n_slots], found[n_slots:].reshape(n_tiles, 3)


def routes_of(ids: NDArray[np.intp], weights: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.concatenate([ids.astype(np.float32), weights], axis=1)


ORDERED = [
    cpu.Case(1, 3, 2, 1, 1),
    cpu.Case(9, 60, 1, 1, 1),
    cpu.Case(40, 5, 3, 1, 1),
    cpu.Case(33, 2, 1, 1, 1),
    cpu.Case(70, 3, 3, 1, 1, routed=False),
]


@pytest.mark.parametrize("case", ORDERED, ids=str)
def test_expert_order(runner: MetalRunner, case: cpu.Case) -> None:
    ids, weights = cpu.choose(case, np.random.default_rng(case.rows))
    order, tiles = order_of(runner, case, routes_of(ids, weights) if case.routed else None)
    np.testing.assert_array_equal(order, np.argsort(ids.reshape(-1), kind="stable"))
    covered = []
    for expert, begin, end in tiles[tiles[:, 1] < tiles[:, 2]]:
        assert end - begin <= TILE_ROWS
        assert (ids.reshape(-1)[order[begin:end]] == expert).all()
        covered += range(begin, end)
    assert covered == list(range(case.rows * case.slots))
    assert (tiles[:, 1] <= tiles[:, 2]).all()


@pytest.mark.parametrize(("kernel", "name", "case"), ALL)
def test_expert_linear(runner: MetalRunner, kernel: str, name: str, case: cpu.Case) -> None:
    rng = np.random.default_rng([FORMATS[name].ggml_type, case.rows, case.n, case.k])
    matrices = [make_matrix(name, case.n, case.k, rng) for _ in range(case.experts)]
    ids, weights = cpu.choose(case, rng)
    routes = routes_of(ids, weights) if case.routed else None
    x = rng.standard_normal((case.rows * (case.slots if case.per_slot else 1), case.k), np.float32)
    bias = rng.standard_normal((case.experts, case.n), np.float32) if case.bias else None
    operands: dict[str, Any] = {"x": x, "routes": routes, "bias": bias}
    operands["weight"] = [matrix.data if e in ids else None for e, matrix in enumerate(matrices)]
    if kernel == "matmul":
        operands["order"] = np.concatenate([part.reshape(-1) for part in order_of(runner, case, routes)])
    params = {"k": case.k, "n": case.n, "experts": case.experts, "slots": case.slots}
    params |= {"x_slots": case.slots if case.per_slot else 1, "weighted": case.weighted, "planes": 0}
    misalign = {"weight": max(2, FORMATS[name].block_bytes if name in FLOATS else 2)}
    shape = (case.rows, case.slots, case.n)
    out = runner.run(f"expert_{kernel}_{name.lower()}", operands, params, case.rows, shape, misalign=misalign)

    rows = np.arange(case.rows)
    for slot in range(case.slots):
        parts = rows * case.slots + slot if case.per_slot else rows
        for row, (part, e) in enumerate(zip(parts, ids[:, slot], strict=True)):
            expected = matrices[e].values @ x[part].astype(np.float64)
            magnitudes = matrices[e].magnitudes @ np.abs(x[part]).astype(np.float64)
            bound = (case.k + 16) * EPSILON * magnitudes
            if bias is not None:
                expected, bound = expected + bias[e], bound + 2 * EPSILON * np.abs(bias[e])
            factor = weights[row, slot] if case.weighted else 1.0
            error = np.abs(out[row, slot] - expected * factor)
            assert (error <= bound * factor + 2 * EPSILON * np.abs(expected)).all()


def test_reads_past_a_matrix_are_found(metal_host: MetalHost) -> None:
    data = make_matrix("Q4_0", 8, 64, np.random.default_rng(0)).data.reshape(-1)
    operands = {"x": np.ones((1, 64), np.float32), "routes": np.array([[1, 1]], np.float32)}
    params = {"k": 64, "n": 8, "experts": 2, "slots": 1, "x_slots": 1, "weighted": 0, "planes": 0}
    message = r"out-of-bounds device read.* what is read through addresses of 287 bytes"
    with pytest.raises(MetalFaultError, match=message):
        MetalRunner(metal_host).run("expert_matvec_q4_0", {**operands, "weight": [None, data[:-1]]}, params, 1, (1, 8))
