"""Ops that work value by value or move values, against NumPy."""

import numpy as np
import pytest
from kernel_testing import EPSILON, Runner, dot_bound

# One value, less than a vector, odd tails, and more values than one work item holds (4096).
SHAPES = [(1, 1), (1, 7), (3, 33), (5, 640), (1, 4097), (2, 12300)]


def values(*shape: int, scale: float = 1.0) -> np.ndarray:
    return (scale * np.random.default_rng(shape).standard_normal(shape)).astype(np.float32)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_add(runner: Runner, shape: tuple[int, int]) -> None:
    a, b = values(*shape), values(*shape, 1)[..., 0]
    out = runner.run("add", {"a": a, "b": b}, {"width": shape[1]}, shape[0], shape)
    np.testing.assert_array_equal(out, a + b)


def test_add_in_place(runner: Runner) -> None:
    a, b = values(3, 33), values(3, 33, 1)[..., 0]
    out = runner.run("add", {"a": a, "b": b}, {"width": 33}, 3, (3, 33), alias={"out": "a"})
    np.testing.assert_array_equal(out, a + b)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_scale(runner: Runner, shape: tuple[int, int]) -> None:
    x = values(*shape)
    out = runner.run("scale", {"x": x}, {"width": shape[1], "factor": 25.3}, shape[0], shape)
    np.testing.assert_array_equal(out, np.float32(25.3) * x)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("cap", [30.0, 0.5])
def test_softcap(runner: Runner, shape: tuple[int, int], cap: float) -> None:
    x = values(*shape, scale=cap)
    x[0, 0] = 1000 * cap
    out = runner.run("softcap", {"x": x}, {"width": shape[1], "cap": cap}, shape[0], shape)
    expected = cap * np.tanh(x.astype(np.float64) / cap)
    assert np.abs(out - expected).max() <= 8 * EPSILON * cap


@pytest.mark.parametrize("width", [1, 33, 640])
def test_take_rows(runner: Runner, width: int) -> None:
    x = values(9, width)
    index = np.array([8, 0, 3, 3], np.int32)
    out = runner.run("take_rows", {"x": x, "index": index}, {"width": width}, 4, (4, width), dims=(9, 4, 2))
    np.testing.assert_array_equal(out, x[index])


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_clamp(runner: Runner, shape: tuple[int, int]) -> None:
    x = values(*shape, scale=3.0)
    x[0, 0] = np.nan
    out = runner.run("clamp", {"x": x}, {"width": shape[1], "limit": 2.5}, shape[0], shape)
    np.testing.assert_array_equal(out, np.clip(x, np.float32(-2.5), np.float32(2.5)))


@pytest.mark.parametrize(("width", "group"), [(1, 1), (33, 1), (640, 1), (640, 64), (33, 11), (7, 7)])
@pytest.mark.parametrize("by_row", [False, True])
def test_multiply(runner: Runner, width: int, group: int, by_row: bool) -> None:
    x, n = values(3, width), width // group
    factors = values(3 if by_row else 1, n, 2)[..., 0]
    params = {"width": width, "group": group, "factor_stride": n if by_row else 0}
    out = runner.run("multiply", {"x": x, "factors": factors}, params, 3, (3, width))
    np.testing.assert_array_equal(out, x * factors.repeat(group, axis=1))


@pytest.mark.parametrize(("inputs", "outputs", "width"), [(1, 1, 1), (4, 4, 33), (1, 4, 640), (3, 2, 257)])
@pytest.mark.parametrize(("by_row", "added"), [(False, True), (True, False), (True, True)])
def test_mix_streams(runner: Runner, inputs: int, outputs: int, width: int, by_row: bool, added: bool) -> None:
    x, coefficients = values(3, inputs, width), values(3 if by_row else 1, outputs, inputs)
    residual = values(3, outputs, width, 1)[..., 0] if added else None
    params = {"width": width, "inputs": inputs, "outputs": outputs}
    params["coefficient_stride"] = outputs * inputs if by_row else 0
    operands = {"x": x, "coefficients": coefficients, "residual": residual}
    out = runner.run("mix_streams", operands, params, 3, (3, outputs, width))
    expected, magnitudes = coefficients.astype(np.float64) @ x, np.abs(coefficients.astype(np.float64)) @ np.abs(x)
    if residual is not None:
        expected, magnitudes = expected + residual, magnitudes + np.abs(residual)
    assert (np.abs(out - expected) <= dot_bound(inputs + 1, magnitudes)).all()


@pytest.mark.parametrize("offset", [0, 1])
def test_scale_by_position(runner: Runner, offset: int) -> None:
    positions = np.array([0, 1, 8190, 8191, 8192, 100_000, 10_000_000], np.int32)
    x = values(7, 33)
    params = {"width": 33, "beta": 0.1, "period": 8192.0, "offset": offset}
    out = runner.run("scale_by_position", {"x": x, "positions": positions}, params, 7, x.shape)
    factors = 1 + np.float64(np.float32(0.1)) * np.log(1 + np.floor((positions + offset) / 8192.0))
    np.testing.assert_array_equal(out, x * factors.astype(np.float32)[:, None])


def test_take_columns(runner: Runner) -> None:
    x = values(5, 100)
    out = runner.run("take_columns", {"x": x}, {"width": 100, "begin": 33, "count": 50}, 5, (5, 50))
    np.testing.assert_array_equal(out, x[:, 33:83])


@pytest.mark.parametrize("shape", [(1, 1), (3, 33), (2, 640)], ids=str)
def test_root_mean_square(runner: Runner, shape: tuple[int, int]) -> None:
    x = values(*shape)
    out = runner.run("root_mean_square", {"x": x}, {"width": shape[1]}, shape[0], (shape[0],))
    expected = np.sqrt((x.astype(np.float64) ** 2).mean(axis=1))
    assert (np.abs(out - expected) <= (shape[1] / 32 + 3) * EPSILON * expected).all()


@pytest.mark.parametrize("shape", [(1, 1), (3, 33), (2, 640)], ids=str)
def test_keep_outliers(runner: Runner, shape: tuple[int, int]) -> None:
    x = values(*shape) + np.float32(2)
    params = {"width": shape[1], "deviations": 0.5}
    out = runner.run("keep_outliers", {"x": x}, params, shape[0], shape)
    exact = x.astype(np.float64)
    cutoff = exact.mean(axis=1, keepdims=True) + 0.5 * exact.std(axis=1, keepdims=True)
    assert (np.abs(out - np.maximum(exact - cutoff, 0)) <= (shape[1] / 16 + 8) * EPSILON * 4).all()
