"""add, scale, softcap and take_rows against NumPy float64."""

import numpy as np
import pytest
from kernel_testing import EPSILON, Runner

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
