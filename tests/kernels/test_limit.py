"""limit_*: sums that show that everything was read and multiplied."""

import numpy as np
from kernel_testing import Runner

ACCUMULATORS = 6


def test_limit_read(runner: Runner) -> None:
    x = np.random.default_rng(0).integers(0, 256, (3, 640), np.uint8)
    out = runner.run("limit_read", {"x": x}, {"width": 640}, 3, (3, 16))
    expected = np.bitwise_xor.reduce(x.reshape(3, 10, 64), axis=1).view(np.int32).astype(np.float32)
    np.testing.assert_array_equal(out, expected)


def test_limit_int8(runner: Runner) -> None:
    x = np.random.default_rng(1).integers(0, 128, 1024, np.uint8)
    out = runner.run("limit_int8", {"x": x}, {"width": 2 * ACCUMULATORS}, 2, (2, 16))
    factors = x.astype(np.int64).reshape(16, 16, 4)
    products = (factors[0] * factors[:ACCUMULATORS]).sum(axis=(0, 2))
    np.testing.assert_array_equal(out, np.tile(2.0 * products + sum(range(ACCUMULATORS)), (2, 1)))


def test_limit_f32(runner: Runner) -> None:
    x = np.random.default_rng(2).integers(-9, 9, 256).astype(np.float32)  # exact in any order
    out = runner.run("limit_f32", {"x": x}, {"width": 2 * ACCUMULATORS}, 2, (2, 16))
    factors = x.reshape(16, 16)
    products = (factors[0] * factors[:ACCUMULATORS]).sum(axis=0)
    np.testing.assert_array_equal(out, np.tile(2.0 * products + sum(range(ACCUMULATORS)), (2, 1)))
