"""The tables of rotations against NumPy float64."""

from collections.abc import Callable

import numpy as np
import pytest
from kernel_testing import EPSILON, Runner
from numpy.typing import NDArray

Check = Callable[..., None]
POSITIONS = np.array([0, 1, 7, 4095, 131071, 10_000_000], np.int32)


@pytest.fixture
def check() -> Check:
    """`check(out, angles, scale, float_error=0)`: cosines and sines of angles [rows, n] times scale, or of [rows, 1].

    `float_error` is what the angles lose where they are computed in float32: here it is float64.
    """

    def check(out: np.ndarray, angles: np.ndarray, scale: float | np.ndarray, _: float | np.ndarray = 0) -> None:
        expected = scale * np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
        bound = EPSILON * np.abs(expected) + 2.0**-51 * np.abs(np.concatenate([angles, angles], axis=1)) * scale
        assert (np.abs(out - expected) <= bound).all()

    return check


def frequencies_of(n: int, base: float = 1e4) -> NDArray[np.float32]:
    return (base ** (-np.arange(n) / n)).astype(np.float32)


@pytest.mark.parametrize("n", [1, 8, 300])
@pytest.mark.parametrize("scale", [1.0, 1.25])
def test_rope_table(runner: Runner, check: Check, n: int, scale: float) -> None:
    rows, frequencies = len(POSITIONS), frequencies_of(n)
    operands = {"positions": POSITIONS, "frequencies": frequencies}
    out = runner.run("rope_table", operands, {"n": n, "scale": scale}, rows, (rows, 2 * n))
    check(out, POSITIONS[:, None] * frequencies.astype(np.float64), scale)


@pytest.mark.parametrize("n", [1, 8, 300])
def test_sectioned_rope_table(runner: Runner, check: Check, n: int) -> None:
    rng = np.random.default_rng(n)
    positions, axes = rng.integers(0, 100_000, (5, 3), np.int32), rng.integers(0, 3, n)
    operands = {
        "axis_positions": positions,
        "frequencies": frequencies_of(n),
        "axes": axes.astype(np.float32),
    }
    out = runner.run("sectioned_rope_table", operands, {"n": n, "scale": 1.5}, 5, (5, 2 * n))
    check(out, positions[:, axes] * frequencies_of(n).astype(np.float64), 1.5)


def test_long_rope_table(runner: Runner, check: Check) -> None:
    n, rows = 33, len(POSITIONS)
    lengths = np.array([4096, 4097, 8, 4096, 131072, 10_000_001], np.int32)
    short, long = frequencies_of(n), frequencies_of(n, 1e6)
    operands = {"positions": POSITIONS, "lengths": lengths, "short_frequencies": short, "long_frequencies": long}
    params = {"n": n, "threshold": 4096, "short_scale": 1.0, "long_scale": 1.25}
    out = runner.run("long_rope_table", operands, params, rows, (rows, 2 * n))
    is_long = (lengths > 4096)[:, None]
    check(out, POSITIONS[:, None] * np.where(is_long, long, short).astype(np.float64), np.where(is_long, 1.25, 1.0))


def test_dynamic_rope_table(runner: Runner, check: Check) -> None:
    n, rows = 16, len(POSITIONS)
    lengths = np.array([1, 2048, 2049, 4096, 131072, 10_000_001], np.int32)
    operands = {"positions": POSITIONS, "lengths": lengths, "frequencies": frequencies_of(n)}
    out = runner.run("dynamic_rope_table", operands, {"n": n, "factor": 2.0, "threshold": 2048}, rows, (rows, 2 * n))
    stretch = (2.0 * np.maximum(lengths, 2048) / 2048 - 1)[:, None]
    power = -np.arange(n) / (n - 1)
    angles = POSITIONS[:, None] * frequencies_of(n).astype(np.float64) * stretch**power
    # A power in float32: of its exponent a few roundings count, of the frequency one more.
    exponent_error = 6 * EPSILON * np.abs(power) * (1 + np.abs(np.log(stretch)))
    check(out, angles, 1.0, angles * (exponent_error + 4 * EPSILON * (power != 0)))
