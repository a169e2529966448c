"""rope against NumPy float64."""

from dataclasses import dataclass

import numpy as np
import pytest
from kernel_testing import EPSILON, Runner

PAIRINGS = ["half", "adjacent"]  # in the order of their numbers


@dataclass(frozen=True)
class Case:
    rows: int
    heads: int
    head_dim: int
    n_pairs: int
    pairing: str
    in_place: bool = False

    def __str__(self) -> str:
        place = "-in-place" if self.in_place else ""
        return f"{self.rows}x{self.heads}x{self.head_dim}-{self.n_pairs}{self.pairing}{place}"


CASES = [
    Case(rows, heads, head_dim, n_pairs, pairing, in_place)
    for pairing in PAIRINGS
    for in_place in (False, True)
    for rows, heads, head_dim, n_pairs in [
        (1, 1, 8, 4),
        (3, 2, 16, 8),
        (2, 3, 64, 32),
        (2, 2, 80, 10),  # partial rotation, tails shorter than a vector
        (5, 1, 256, 128),
        (2, 1, 576, 32),
    ]
]


def pairs(n: int, pairing: str) -> tuple[slice, slice]:
    """Where the first and the second values of n pairs are."""
    return (slice(0, n), slice(n, 2 * n)) if pairing == "half" else (slice(0, 2 * n, 2), slice(1, 2 * n, 2))


def reference(x: np.ndarray, table: np.ndarray, pairing: str) -> np.ndarray:
    """x [rows, heads, head_dim] rotated by table [rows, 2 * n_pairs]."""
    n = table.shape[1] // 2
    cosines, sines = table[:, None, :n], table[:, None, n:]
    first, second = pairs(n, pairing)
    out = x.copy()
    out[..., first] = x[..., first] * cosines - x[..., second] * sines
    out[..., second] = x[..., second] * cosines + x[..., first] * sines
    return out


@pytest.mark.parametrize("case", CASES, ids=str)
def test_rope(runner: Runner, case: Case) -> None:
    rng = np.random.default_rng(case.head_dim)
    x = rng.standard_normal((case.rows, case.heads, case.head_dim)).astype(np.float32)
    angles = rng.uniform(-10, 10, (case.rows, case.n_pairs))
    table = np.concatenate([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    params = {
        "heads": case.heads,
        "head_dim": case.head_dim,
        "n_pairs": case.n_pairs,
        "pairing": PAIRINGS.index(case.pairing),
    }
    alias = {"out": "x"} if case.in_place else None
    out = runner.run("rope", {"x": x, "table": table}, params, case.rows, x.shape, alias=alias)

    expected = reference(x.astype(np.float64), table.astype(np.float64), case.pairing)
    first, second = pairs(case.n_pairs, case.pairing)
    # Two roundings on the way of either product; cosines and sines are at most 1.
    bound = 2.01 * EPSILON * (np.abs(x[..., first]) + np.abs(x[..., second]))
    for part in (first, second):
        assert (np.abs(out[..., part] - expected[..., part]) <= bound).all()
    np.testing.assert_array_equal(out[..., 2 * case.n_pairs :], x[..., 2 * case.n_pairs :])
