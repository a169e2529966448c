"""expert_linear against NumPy float64 and, to the bit, against matvec; expert_sum against NumPy float64."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from kernel_testing import EPSILON, Runner
from numpy.typing import NDArray
from quantized_rows import QuantizedRows
from weights import FLOATS, make_matrix

from ferrule.formats import FORMATS


@dataclass(frozen=True)
class Case:
    rows: int
    experts: int
    slots: int
    n: int
    k: int
    per_slot: bool = False  # every slot has an input of its own
    routed: bool = True
    weighted: bool = False
    bias: bool = False
    planes: int = 2  # of quantised activations

    def __str__(self) -> str:
        flags = [name for name in ("per_slot", "weighted", "bias") if getattr(self, name)]
        routed = f"{self.slots}of{self.experts}" if self.routed else f"each-of-{self.experts}"
        return "-".join([f"{self.rows}x{routed}", f"{self.n}x{self.k}", *flags, f"planes{self.planes}"])


CASES = [
    Case(1, 8, 2, 33, 256),
    Case(1, 1, 1, 16, 256, per_slot=True, bias=True, weighted=True),
    Case(3, 4, 2, 7, 512, bias=True),
    Case(5, 60, 4, 20, 256, per_slot=True),
    Case(40, 6, 2, 35, 256, weighted=True, bias=True),
    Case(70, 3, 3, 17, 256, per_slot=True, weighted=True),
    Case(2, 5, 5, 18, 256, per_slot=True, routed=False),
    Case(40, 6, 2, 35, 256, planes=1),
]
FLOAT_ONLY = [Case(2, 3, 2, 5, 7), Case(9, 2, 1, 16, 100)]
ALL = [
    pytest.param(name, case, id=f"{name}-{case}") for name in FORMATS for case in CASES + FLOAT_ONLY * (name in FLOATS)
]


def choose(case: Case, rng: np.random.Generator) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
    """Experts and weights [rows, slots]; experts are distinct in a row, and the last expert is never chosen."""
    if not case.routed:
        return np.tile(np.arange(case.slots), (case.rows, 1)), np.ones((case.rows, case.slots), np.float32)
    among = max(case.slots, case.experts - 1)
    ids = np.stack([rng.permutation(among)[: case.slots] for _ in range(case.rows)])
    return ids, rng.uniform(0.1, 1, ids.shape).astype(np.float32)


@pytest.mark.parametrize(("name", "case"), ALL)
def test_expert_linear(runner: Runner, name: str, case: Case) -> None:
    rng = np.random.default_rng([case.rows, case.n, case.k])
    matrices = [make_matrix(name, case.n, case.k, rng) for _ in range(case.experts)]
    ids, weights = choose(case, rng)
    activations = rng.standard_normal((case.rows * (case.slots if case.per_slot else 1), case.k), np.float32)
    quantized = QuantizedRows.quantize(activations, case.planes)
    planes = 0 if name in FLOATS else case.planes
    x, values = (quantized.to_bytes(), quantized.values()) if planes else (activations, activations.astype(np.float64))
    bias = rng.standard_normal((case.experts, case.n), np.float32) if case.bias else None

    # The matrices of experts that nobody chose are not there at all; blocks lie anywhere, floats where floats may.
    table = [matrix.data if e in ids else None for e, matrix in enumerate(matrices)]
    params = {"k": case.k, "n": case.n, "experts": case.experts, "slots": case.slots}
    params |= {"x_slots": case.slots if case.per_slot else 1, "weighted": case.weighted, "planes": planes}
    routes = np.concatenate([ids.astype(np.float32), weights], axis=1) if case.routed else None
    operands = {"x": x, "routes": routes, "weight": table, "bias": bias}
    shape = (case.rows, case.slots, case.n)
    misalign = {"weight": FORMATS[name].block_bytes if name in FLOATS else 3}
    out = runner.run(f"expert_linear_{name.lower()}", operands, params, case.rows, shape, misalign=misalign)

    roundings = case.k / 16 + 4 if name in FLOATS else case.k / 128 * 4 + 3 + 6
    for e in np.unique(ids):
        rows, slots = np.nonzero(ids == e)
        parts = rows * case.slots + slots if case.per_slot else rows
        factor = weights[rows, slots, None] if case.weighted else np.ones((len(rows), 1), np.float32)
        alone = {"x": x[parts], "weight": matrices[e].data, "bias": None if bias is None else bias[e]}
        matmul = {"k": case.k, "n": case.n, "scale": 1.0, "planes": planes}
        same = runner.run(f"matvec_{name.lower()}", alone, matmul, len(parts), (len(parts), case.n))
        np.testing.assert_array_equal(out[rows, slots], same * factor)

        expected = values[parts] @ matrices[e].values.T
        bound = (roundings + 3) * (np.abs(values[parts]) @ matrices[e].magnitudes.T)
        if bias is not None:
            expected, bound = expected + bias[e], bound + 2 * np.abs(bias[e])
        assert (np.abs(out[rows, slots] - expected * factor) <= 1.01 * EPSILON * (bound + np.abs(expected))).all()


def test_items_share_the_work_of_the_chosen_experts(runner: Runner) -> None:
    rows, experts, n, k = 12, 8, 512, 256
    matrix = np.ones((n, k), np.float32)
    table = [matrix if e == 5 else None for e in range(experts)]
    params = {"k": k, "n": n, "experts": experts, "slots": 1, "x_slots": 1, "weighted": 0, "planes": 0}
    operands = {"x": np.ones((rows, k), np.float32), "routes": np.full((rows, 2), 5, np.float32), "weight": table}
    run = ("expert_linear_f32", operands, params, rows, {"out": ((rows, 1, n), np.float32)}, (rows, rows, 1), {}, {})
    items, _ = runner._run_once(*run, None)
    _, first_half = runner._run_once(*run, [(0, items // 2)])
    assert np.count_nonzero(first_half["out"] == k) == rows * n / 2


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("rows", "slots", "width"), [(1, 1, 1), (3, 2, 33), (2, 8, 640)])
def test_expert_sum(runner: Runner, rows: int, slots: int, width: int, weighted: bool) -> None:
    rng = np.random.default_rng([rows, slots, width])
    x = rng.standard_normal((rows, slots, width), np.float32)
    weights = rng.uniform(0.1, 1, (rows, slots)).astype(np.float32)
    routes = np.concatenate([np.full((rows, slots), np.nan, np.float32), weights], axis=1)
    residual = rng.standard_normal((rows, width), np.float32) if weighted else None
    params = {"width": width, "slots": slots, "weighted": weighted}
    operands = {"x": x, "routes": routes, "residual": residual}
    out = runner.run("expert_sum", operands, params, rows, (rows, width))
    terms = x.astype(np.float64) * (weights[..., None] if weighted else 1)
    if residual is not None:
        terms = np.concatenate([terms, residual[:, None]], axis=1)
    assert (np.abs(out - terms.sum(axis=1)) <= (slots + 2) * EPSILON * np.abs(terms).sum(axis=1)).all()
