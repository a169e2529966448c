"""causal_conv1d against NumPy float64."""

import numpy as np
import pytest
from kernel_testing import EPSILON, Runner
from sequences import CASES, Sequences


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("channels", "kernel"), [(1, 2), (16, 4), (37, 3), (96, 2)])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_causal_conv1d(runner: Runner, case: Sequences, channels: int, kernel: int, bias: bool) -> None:
    rng = np.random.default_rng([channels, case.rows])
    x = rng.standard_normal((case.rows, channels), np.float32)
    weight = rng.standard_normal((channels, kernel), np.float32)
    offset = rng.standard_normal(channels, np.float32) if bias else None
    states = case.states(kernel - 1, channels, rng=rng)
    operands = {"x": x, "weight": weight, "bias": offset, "state": states, **case.inputs()}
    dims = (case.rows, case.rows, len(case.spans))
    result = runner.run(
        "causal_conv1d",
        operands,
        {"channels": channels, "taps": kernel},
        case.rows,
        {"out": (x.shape, np.float32)},
        dims=dims,
    )
    after, out = result["state"], result["out"]
    for rows, slot, before in zip(case.slices(), case.slots, case.before(states), strict=True):
        seen = np.concatenate([before, x[rows].astype(np.float64)])
        n = rows.stop - rows.start
        np.testing.assert_array_equal(after[slot], seen[n:].astype(np.float32))
        terms = np.stack([seen[i : i + n] * weight[:, i] for i in range(kernel)])
        start = 0.0 if offset is None else offset.astype(np.float64)
        bound = (kernel + 1) * EPSILON * (np.abs(terms).sum(axis=0) + np.abs(start))
        assert (np.abs(out[rows] - terms.sum(axis=0) - start) <= bound).all()
    case.check_others(states, after)
