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


POSITIONS = np.array([0, 1, 7, 4095, 131071, 10_000_000], np.int32)


def check(out: np.ndarray, angles: np.ndarray, scale: np.ndarray) -> None:
    """Cosines and sines of angles [rows, n] times scale [rows, 1]."""
    expected = scale * np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
    bound = EPSILON * np.abs(expected) + 2.0**-51 * np.abs(np.concatenate([angles, angles], axis=1)) * scale
    assert (np.abs(out - expected) <= bound).all()


@pytest.mark.parametrize("n", [1, 8, 33])
def test_sectioned_rope_table(runner: Runner, n: int) -> None:
    rng = np.random.default_rng(n)
    positions = rng.integers(0, 100_000, (5, 3), np.int32)
    frequencies = (10000.0 ** (-np.arange(n) / n)).astype(np.float32)
    axes = rng.integers(0, 3, n)
    operands = {"axis_positions": positions, "frequencies": frequencies, "axes": axes.astype(np.float32)}
    out = runner.run("sectioned_rope_table", operands, {"n": n, "scale": 1.5}, 5, (5, 2 * n))
    check(out, positions[:, axes] * frequencies.astype(np.float64), np.full((5, 1), 1.5))


def test_long_rope_table(runner: Runner) -> None:
    n, rows = 33, len(POSITIONS)
    lengths = np.array([4096, 4097, 8, 4096, 131072, 10_000_001], np.int32)
    short, long = ((base ** (-np.arange(n) / n)).astype(np.float32) for base in (1e4, 1e6))
    operands = {"positions": POSITIONS, "lengths": lengths, "short_frequencies": short, "long_frequencies": long}
    params = {"n": n, "threshold": 4096, "short_scale": 1.0, "long_scale": 1.25}
    out = runner.run("long_rope_table", operands, params, rows, (rows, 2 * n))
    is_long = (lengths > 4096)[:, None]
    angles = POSITIONS[:, None] * np.where(is_long, long, short).astype(np.float64)
    check(out, angles, np.where(is_long, 1.25, 1.0))


def test_dynamic_rope_table(runner: Runner) -> None:
    n, rows = 16, len(POSITIONS)
    lengths = np.array([1, 2048, 2049, 4096, 131072, 10_000_001], np.int32)
    frequencies = (1e4 ** (-np.arange(n) / n)).astype(np.float32)
    operands = {"positions": POSITIONS, "lengths": lengths, "frequencies": frequencies}
    out = runner.run("dynamic_rope_table", operands, {"n": n, "factor": 2.0, "threshold": 2048}, rows, (rows, 2 * n))
    stretch = 2.0 * np.maximum(lengths, 2048) / 2048 - 1
    shrunk = frequencies.astype(np.float64) * stretch[:, None] ** (-np.arange(n) / (n - 1))
    check(out, POSITIONS[:, None] * shrunk, np.ones((rows, 1)))
