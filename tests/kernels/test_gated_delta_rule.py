"""gated_delta_rule against NumPy float64."""

from dataclasses import dataclass

import numpy as np
import pytest
from kernel_testing import Runner
from sequences import CASES, Sequences


@dataclass(frozen=True)
class Shape:
    heads: int
    k_heads: int
    k_dim: int
    v_dim: int
    tiled: bool = False
    by_dim: bool = False  # a decay for every key dimension

    def __str__(self) -> str:
        flags = [name for name in ("tiled", "by_dim") if getattr(self, name)]
        return "-".join([f"{self.heads}/{self.k_heads}", f"{self.k_dim}x{self.v_dim}", *flags])


SHAPES = [
    Shape(2, 2, 16, 16),
    Shape(4, 2, 20, 33),
    Shape(6, 3, 8, 100, tiled=True),
    Shape(2, 1, 128, 128),
    Shape(3, 3, 24, 16, by_dim=True),
]
# Long sequences with small states.
WORK = [
    (case, shape) for case in CASES for shape in SHAPES if case.rows * shape.heads * shape.k_dim * shape.v_dim < 500_000
]


@pytest.mark.parametrize(("case", "shape"), WORK, ids=str)
def test_gated_delta_rule(runner: Runner, case: Sequences, shape: Shape) -> None:
    rng = np.random.default_rng([shape.heads, case.rows])
    heads, k_heads, k_dim, v_dim = shape.heads, shape.k_heads, shape.k_dim, shape.v_dim
    decays = k_dim if shape.by_dim else 1
    q, k = (rng.standard_normal((case.rows, k_heads, k_dim), np.float32) for _ in range(2))
    k /= np.linalg.norm(k, axis=-1, keepdims=True)  # as in models: without it errors grow
    v = rng.standard_normal((case.rows, heads, v_dim), np.float32)
    beta = rng.uniform(0, 1, (case.rows, heads)).astype(np.float32)
    dt = rng.standard_normal((case.rows, heads, decays), np.float32)
    a, dt_bias = -rng.uniform(0.1, 2, heads).astype(np.float32), rng.standard_normal((heads, decays), np.float32)
    states = case.states(heads, k_dim, v_dim, rng=rng)
    operands = {"q": q, "k": k, "v": v, "beta": beta, "dt": dt, "a": a, "dt_bias": dt_bias}
    operands |= {"state": states, **case.inputs()}
    params = {"heads": heads, "k_heads": k_heads, "k_dim": k_dim, "v_dim": v_dim}
    params |= {"decays": decays, "tiled": shape.tiled}
    dims = (case.rows, case.rows, len(case.spans))
    result = runner.run("gated_delta_rule", operands, params, case.rows, {"out": (v.shape, np.float32)}, dims=dims)
    after, out = result["state"], result["out"]

    used = np.arange(heads) % k_heads if shape.tiled else np.arange(heads) // (heads // k_heads)
    q, k = q.astype(np.float64)[:, used], k.astype(np.float64)[:, used]
    factors = np.exp(a[:, None] * np.logaddexp(dt.astype(np.float64) + dt_bias, 0))
    for rows, slot, s in zip(case.slices(), case.slots, case.before(states), strict=True):
        size = np.abs(s).max(initial=0)
        for t in range(rows.start, rows.stop):
            s = factors[t][:, :, None] * s
            error = v[t] - np.einsum("hkv,hk->hv", s, k[t])
            s = s + k[t][:, :, None] * (beta[t][:, None] * error)[:, None, :]
            size = size + np.abs(v[t]).max()
            # Each token's rounding, of sums over k_dim, stays in the state for the rest of the step.
            bound = 1e-6 * k_dim**0.5 * size
            expected = np.einsum("hkv,hk->hv", s, q[t])
            assert (np.abs(out[t] - expected) <= bound * np.abs(q[t]).sum(axis=-1, keepdims=True)).all()
        assert (np.abs(after[slot] - s) <= bound).all()
    case.check_others(states, after)
