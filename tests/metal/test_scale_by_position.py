"""scale_by_position against NumPy float64."""

import numpy as np
import pytest
from kernel_testing import EPSILON

from metal.metal_runner import MetalRunner


@pytest.mark.parametrize("offset", [0, 1])
def test_scale_by_position(runner: MetalRunner, offset: int) -> None:
    positions = np.array([0, 1, 8190, 8191, 8192, 100_000, 10_000_000], np.int32)
    x = np.random.default_rng(0).standard_normal((7, 33), np.float32)
    params = {"width": 33, "beta": 0.1, "period": 8192.0, "offset": offset}
    out = runner.run("scale_by_position", {"x": x, "positions": positions}, params, 7, x.shape)
    factors = 1 + np.float64(np.float32(0.1)) * np.log(1 + np.floor((positions + offset) / 8192.0))
    # The number of periods is exact; its logarithm, the factor and the product round.
    assert (np.abs(out - x * factors[:, None]) <= 5 * EPSILON * np.abs(x * factors[:, None])).all()
