"""ssm_scan against NumPy float64."""

from dataclasses import dataclass

import numpy as np
import pytest
from kernel_testing import Runner
from sequences import CASES, Sequences


@dataclass(frozen=True)
class Shape:
    heads: int
    head_dim: int
    n: int
    groups: int = 1
    diagonal: bool = False  # a decay for every value of a row
    dt_bias: bool = True
    limits: tuple[float, float] = (0.0, np.inf)

    def __str__(self) -> str:
        flags = [name for name in ("diagonal", "dt_bias") if getattr(self, name)]
        return "-".join([f"{self.heads}x{self.head_dim}x{self.n}", f"{self.groups}groups", *flags])


SHAPES = [
    Shape(37, 1, 16, diagonal=True, dt_bias=False),
    Shape(6, 64, 128, groups=2, limits=(0.05, 0.4)),
    Shape(4, 24, 20, groups=4),
    Shape(3, 5, 7),
]
# Long sequences with small states.
WORK = [
    (case, shape) for case in CASES for shape in SHAPES if case.rows * shape.heads * shape.head_dim * shape.n < 500_000
]


def softplus(x: np.ndarray) -> np.ndarray:
    return np.logaddexp(x, 0)


@pytest.mark.parametrize(("case", "shape"), WORK, ids=str)
def test_ssm_scan(runner: Runner, case: Sequences, shape: Shape) -> None:
    rng = np.random.default_rng([shape.heads, case.rows])
    heads, head_dim, n, groups = shape.heads, shape.head_dim, shape.n, shape.groups
    x = rng.standard_normal((case.rows, heads, head_dim), np.float32)
    dt = (3 * rng.standard_normal((case.rows, heads)) - 1).astype(np.float32)
    b, c = (rng.standard_normal((case.rows, groups, n), np.float32) for _ in range(2))
    a = -rng.uniform(0.1, 4, (heads, n if shape.diagonal else 1)).astype(np.float32)
    d = rng.standard_normal(heads, np.float32)
    dt_bias = rng.standard_normal(heads, np.float32) if shape.dt_bias else None
    states = case.states(heads, head_dim, n, rng=rng)
    operands = {"x": x, "dt": dt, "b": b, "c": c, "a": a, "d": d, "dt_bias": dt_bias, "state": states, **case.inputs()}
    params = {"heads": heads, "head_dim": head_dim, "n": n, "groups": groups, "a_width": a.shape[1]}
    params |= {"dt_min": shape.limits[0], "dt_max": shape.limits[1]}
    dims = (case.rows, case.rows, len(case.spans))
    result = runner.run("ssm_scan", operands, params, case.rows, {"out": (x.shape, np.float32)}, dims=dims)
    after, out = result["state"], result["out"]

    steps = softplus(dt.astype(np.float64) + (0 if dt_bias is None else dt_bias))
    steps = np.clip(steps, *(np.float64(np.float32(limit)) for limit in shape.limits))
    b, c = (part.astype(np.float64).repeat(heads // groups, axis=1) for part in (b, c))
    for rows, slot, s in zip(case.slices(), case.slots, case.before(states), strict=True):
        magnitude = np.abs(s)
        for t in range(rows.start, rows.stop):
            decay = np.exp(steps[t][:, None] * a.astype(np.float64))[:, None, :]
            added = (steps[t][:, None] * x[t])[:, :, None] * b[t][:, None, :]
            s, magnitude = decay * s + added, decay * magnitude + np.abs(added)
            expected = np.einsum("hpn,hn->hp", s, c[t]) + d[:, None] * x[t]
            size = np.einsum("hpn,hn->hp", magnitude, np.abs(c[t])) + np.abs(d[:, None] * x[t])
            # Rounding of a step, times the greatest |a * step|, acts on every decay since.
            assert (np.abs(out[t] - expected) <= 2e-5 * size).all()
        assert (np.abs(after[slot] - s) <= 2e-5 * magnitude).all()
    case.check_others(states, after)


def test_steps_alone_give_the_same_bits(runner: Runner) -> None:
    """One call over three tokens, or three calls."""
    rng = np.random.default_rng(1)
    heads, head_dim, n = 4, 8, 16
    shapes = {"x": (3, heads, head_dim), "dt": (3, heads), "b": (3, 1, n), "c": (3, 1, n)}
    arrays = {name: rng.standard_normal(shape, np.float32) for name, shape in shapes.items()}
    fixed = {"a": -np.ones((heads, 1), np.float32), "d": np.ones(heads, np.float32)}
    fixed |= {"state_slots": np.zeros(1, np.int32)}
    params = {"heads": heads, "head_dim": head_dim, "n": n, "groups": 1, "a_width": 1, "dt_min": 0.0, "dt_max": np.inf}
    state = np.zeros((1, heads, head_dim, n), np.float32)

    def scan(begin: int, end: int, state: np.ndarray) -> dict[str, np.ndarray]:
        spans = np.array([[0, end - begin, begin, 0]], np.uint32)
        step = {name: array[begin:end] for name, array in arrays.items()}
        operands = {**step, **fixed, "state": state, "spans": spans}
        out = {"out": ((end - begin, heads, head_dim), np.float32)}
        result: dict[str, np.ndarray] = runner.run("ssm_scan", operands, params, end - begin, out)
        return result

    whole = scan(0, 3, state)
    for t in range(3):
        part = scan(t, t + 1, state)
        state = part["state"]
        np.testing.assert_array_equal(part["out"][0], whole["out"][t])
    np.testing.assert_array_equal(state, whole["state"])
