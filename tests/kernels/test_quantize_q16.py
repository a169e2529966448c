"""quantize_q16 against NumPy: every part of the rows is the same to the bit."""

import numpy as np
import pytest
from kernel_testing import Runner
from q16_rows import Q16Rows, row_bytes


def quantize(runner: Runner, x: np.ndarray) -> Q16Rows:
    rows, k = x.shape
    out = runner.run("quantize_q16", {"x": x}, {"k": k, "parts": 1}, rows, {"out": ((rows, row_bytes(k)), np.uint8)})
    return Q16Rows.from_bytes(out, k)


def assert_same(got: Q16Rows, want: Q16Rows) -> None:
    for part in ("codes", "scale", "sum16", "scaled_sum"):
        np.testing.assert_array_equal(getattr(got, part), getattr(want, part), part)


@pytest.mark.parametrize("k", [32, 64, 96, 128, 160, 576, 640, 2112, 1, 40])
@pytest.mark.parametrize("rows", [1, 3])
def test_quantize_q16(runner: Runner, rows: int, k: int) -> None:
    x = np.random.default_rng(k).standard_normal((rows, k)).astype(np.float32)
    x *= np.exp2(np.random.default_rng(rows).integers(-20, 20, (rows, k))).astype(np.float32)
    assert_same(quantize(runner, x), Q16Rows.quantize(x))


@pytest.mark.parametrize("k", [32, 40, 160])
def test_parts_are_rows_of_their_own(runner: Runner, k: int) -> None:
    x = np.random.default_rng(k).standard_normal((2, 3 * k)).astype(np.float32)
    out = runner.run("quantize_q16", {"x": x}, {"k": k, "parts": 3}, 2, {"out": ((6, row_bytes(k)), np.uint8)})
    assert_same(Q16Rows.from_bytes(out, k), Q16Rows.quantize(x.reshape(6, k)))


def test_extreme_groups(runner: Runner) -> None:
    groups = np.zeros((6, 32), np.float32)
    groups[1] = np.linspace(-1, 1, 32)
    groups[2, 5] = -3e38
    groups[3] = np.arange(32) * np.float32(1.4e-45)  # the scale rounds to zero
    groups[4] = np.arange(190, 222) * np.float32(1.4e-45)  # x / scale is beyond the largest code
    groups[5] = np.arange(32) - 15.5  # ties
    x = groups.reshape(1, -1)
    assert_same(quantize(runner, x), Q16Rows.quantize(x))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_show_in_the_scale_of_their_group(runner: Runner, bad: float) -> None:
    x = np.ones((1, 96), np.float32)
    x[0, 40] = bad
    q16 = quantize(runner, x)
    assert np.isfinite(q16.scale[0, [0, 2]]).all()
    assert not np.isfinite(q16.scale[0, 1])
