"""quantize against NumPy: every part of the rows is the same to the bit."""

import numpy as np
import pytest
from kernel_testing import Runner
from quantized_rows import QuantizedRows, quantized_bytes, row_bytes


@pytest.fixture(params=[1, 2])
def planes(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def quantize(runner: Runner, x: np.ndarray, planes: int, parts: int = 1) -> QuantizedRows:
    """x: [rows, parts * k]."""
    rows, k = len(x), x.shape[1] // parts
    shape = (rows * parts, row_bytes(k, planes))
    out = runner.run("quantize", {"x": x}, {"k": k, "parts": parts, "planes": planes}, rows, {"out": (shape, np.uint8)})
    return QuantizedRows.from_bytes(out, k, planes)


def assert_same(got: QuantizedRows, want: QuantizedRows) -> None:
    for part in ("codes", "scale", "sum16", "scaled_sum"):
        np.testing.assert_array_equal(getattr(got, part), getattr(want, part), part)


@pytest.mark.parametrize("k", [32, 64, 96, 128, 160, 576, 640, 2112, 1, 40])
@pytest.mark.parametrize("rows", [1, 3])
def test_quantize(runner: Runner, rows: int, k: int, planes: int) -> None:
    x = np.random.default_rng(k).standard_normal((rows, k)).astype(np.float32)
    x *= np.exp2(np.random.default_rng(rows).integers(-20, 20, (rows, k))).astype(np.float32)
    assert_same(quantize(runner, x, planes), QuantizedRows.quantize(x, planes))


@pytest.mark.parametrize("k", [32, 40, 160])
def test_parts_are_rows_of_their_own(runner: Runner, k: int, planes: int) -> None:
    x = np.random.default_rng(k).standard_normal((2, 3 * k)).astype(np.float32)
    assert_same(quantize(runner, x, planes, parts=3), QuantizedRows.quantize(x.reshape(6, k), planes))


def test_extreme_groups(runner: Runner, planes: int) -> None:
    groups = np.zeros((6, 32), np.float32)
    groups[1] = np.linspace(-1, 1, 32)
    groups[2, 5] = -3e38
    groups[3] = np.arange(32) * np.float32(1.4e-45)  # the scale rounds to zero
    groups[4] = np.arange(190, 222) * np.float32(1.4e-45)  # x / scale is beyond the largest code
    groups[5] = np.arange(32) - 15.5  # ties
    x = groups.reshape(1, -1)
    assert_same(quantize(runner, x, planes), QuantizedRows.quantize(x, planes))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_show_in_the_scale_of_their_group(runner: Runner, bad: float, planes: int) -> None:
    x = np.ones((1, 96), np.float32)
    x[0, 40] = bad
    scale = quantize(runner, x, planes).scale
    assert np.isfinite(scale[0, [0, 2]]).all()
    assert not np.isfinite(scale[0, 1])


@pytest.mark.parametrize("k", [1, 32, 47, 576])
def test_rows_of_bfloat16(runner: Runner, k: int) -> None:
    rng = np.random.default_rng(k)
    x = rng.standard_normal((4, 2 * k)).astype(np.float32)
    x[1] = (rng.integers(-300, 300, 2 * k) + np.float32(0.5)) / 64  # ties
    x[2] *= np.exp2(rng.integers(-126, 120, 2 * k)).astype(np.float32)
    x[3, :2] = 3.4e38, -np.inf  # the first rounds to infinity
    x[np.abs(x) < 2.0**-126] = 0
    params = {"k": k, "parts": 2, "planes": 0}
    out = runner.run("quantize", {"x": x}, params, 4, {"out": ((8, row_bytes(k, 0)), np.uint8)})
    np.testing.assert_array_equal(out, quantized_bytes(x.reshape(8, k), 0))


@pytest.mark.parametrize("bits", [0x7F800001, 0x7FFFFFFF, 0xFF80FFFF])
def test_nan_stays_nan_in_bfloat16(runner: Runner, bits: int) -> None:
    x = np.ones((1, 40), np.float32)
    x.view(np.uint32)[0, 7] = bits
    out = runner.run(
        "quantize", {"x": x}, {"k": 40, "parts": 1, "planes": 0}, 1, {"out": ((1, row_bytes(40, 0)), np.uint8)}
    )
    values = (out.view(np.uint16)[0, :40].astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_array_equal(np.isnan(values), np.arange(40) == 7)
