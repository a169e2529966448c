"""rope_table against NumPy float64."""

import numpy as np
import pytest
from kernel_testing import EPSILON, Runner


@pytest.mark.parametrize("n", [1, 8, 33])
@pytest.mark.parametrize("scale", [1.0, 1.2])
def test_rope_table(runner: Runner, n: int, scale: float) -> None:
    positions = np.array([0, 1, 7, 4095, 131071, 10_000_000], np.int32)
    frequencies = (10000.0 ** (-np.arange(n) / n)).astype(np.float32)
    operands = {"positions": positions, "frequencies": frequencies}
    out = runner.run("rope_table", operands, {"n": n, "scale": scale}, len(positions), (len(positions), 2 * n))

    angles = positions[:, None].astype(np.float64) * frequencies.astype(np.float64)
    expected = np.float64(np.float32(scale)) * np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
    # One rounding to float32; the angle itself carries half a unit in the last place of float64.
    bound = EPSILON * np.abs(expected) + 2.0**-52 * positions[:, None]
    assert (np.abs(out - expected) <= bound).all()
