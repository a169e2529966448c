"""rope_table against NumPy float64."""

import numpy as np
import pytest

from metal.metal_runner import MetalRunner


@pytest.mark.parametrize("n", [1, 8, 300])
@pytest.mark.parametrize("scale", [1.0, 1.2])
def test_rope_table(runner: MetalRunner, n: int, scale: float) -> None:
    positions = np.array([0, 1, 7, 4095, 131071, 10_000_000], np.int32)
    frequencies = (10000.0 ** (-np.arange(n) / n)).astype(np.float32)
    operands = {"positions": positions, "frequencies": frequencies}
    out = runner.run("rope_table", operands, {"n": n, "scale": scale}, len(positions), (len(positions), 2 * n))

    angles = positions[:, None].astype(np.float64) * frequencies.astype(np.float64)
    expected = scale * np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
    # The reduced angle, at most pi, is rounded three times; the functions and the scale round too.
    assert np.abs(out - expected).max() <= (3 * 2.0**-23 + 3 * 2.0**-24) * scale
