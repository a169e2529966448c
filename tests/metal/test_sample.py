"""sample draws the tokens that the host's sampler draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ferrule.engine.sampling import DRAW, GenerationOptions, Sampler
from metal.metal_runner import MetalRunner

OPTIONS: list[dict[str, Any]] = [
    {},
    {"temperature": 1.0},
    {"temperature": 0.7, "top_k": 40},
    {"temperature": 2.0, "top_k": 2},
    {"temperature": 1.3, "top_k": 10_000, "min_p": 0.02},
    {"temperature": 0.9, "min_p": 0.3},
]


def drawn(runner: MetalRunner, logits: NDArray[np.float32], draws: NDArray[Any]) -> list[int]:
    rows, width = logits.shape
    operands = {"logits": logits, "draws": draws.view(np.uint8)}
    return runner.run("sample", operands, {"width": width}, rows, {"out": ((rows,), np.int32)}).tolist()


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("width", [1, 300, 5003])
def test_tokens_are_those_of_the_host(runner: MetalRunner, width: int, options: dict[str, Any]) -> None:
    rows = 8
    logits = 3 * np.random.default_rng(width).standard_normal((rows, width), np.float32)
    logits[1] = np.round(logits[1])  # ties
    logits[2, 1:] = -np.inf
    host, device = (Sampler(GenerationOptions(**options, seed=7), width) for _ in range(2))
    draws = np.array([device.draw() for _ in range(rows)], DRAW)
    assert drawn(runner, logits, draws) == [host.sample(row, []) for row in logits]


def test_draws_at_the_ends(runner: MetalRunner) -> None:
    logits = np.zeros((3, 100), np.float32)
    logits[:, 90:] = -np.inf
    draws = np.array([(0.0, 1.0, 0, 0.0), (1.0, 1.0, 0, 0.0), (0.5, 1.0, 0, 0.0)], DRAW)
    assert drawn(runner, logits, draws) == [0, 89, 45]


def test_zeros_of_both_signs_are_equal(runner: MetalRunner) -> None:
    logits = np.array([[-1.0, -0.0, 0.0, 0.0]], np.float32)
    assert drawn(runner, logits, np.array([(0.0, 1.0, 2, 0.0)], DRAW)) == [1]


@pytest.mark.parametrize(("token", "value"), [(3, np.nan), (3, np.inf), (slice(None), -np.inf)])
def test_logits_that_are_no_numbers(runner: MetalRunner, token: Any, value: float) -> None:
    logits = np.ones((1, 700), np.float32)
    logits[0, token] = value
    assert drawn(runner, logits, np.array([(0.0, 1.0, 1, 0.0)], DRAW)) == [-1]
