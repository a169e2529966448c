"""activation, gated_activation and gated_activation_q8 against NumPy float64."""

import math

import numpy as np
import pytest
from kernel_testing import EPSILON, Runner
from q8_rows import Q8Rows, row_bytes

# In the order of their numbers.
ACTIVATIONS = ["silu", "gelu_tanh", "gelu_erf", "relu", "relu2", "sigmoid", "identity"]

# One value, less than a vector, odd tails, and more values than one work item holds (512).
SHAPES = [(1, 1), (1, 7), (3, 33), (2, 640), (1, 2048)]

# Below this silu and gelu_tanh may give zero: their exponential overflows.
TINY = 1e-35


def inputs(shape: tuple[int, int]) -> np.ndarray:
    """Values of every size, zero and large arguments of both signs among them."""
    rng = np.random.default_rng(shape)
    x = rng.standard_normal(shape) * 10.0 ** rng.uniform(-3, 2, shape)
    x.flat[: min(5, x.size)] = [0.0, -1e5, 1e5, -12.0, 5.5][: x.size]
    return x.astype(np.float32)


def reference(x: np.ndarray, activation: str) -> tuple[np.ndarray, np.ndarray]:
    """The value of the activation and the largest error of its computation in float32.

    The functions of `csrc/cpu/simd/math.h` are within 2 units in the last place, 4 epsilons.
    """
    x = x.astype(np.float64)
    with np.errstate(over="ignore"):
        if activation == "silu":
            y = x / (1 + np.exp(-x))
            return y, 7 * EPSILON * np.abs(y) + TINY
        if activation == "gelu_tanh":
            u = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
            y = x / (1 + np.exp(-2 * u))
            # The exponent is off by 6 roundings, which counts where the exponential does.
            return y, (7 + 12 * np.abs(u) / (1 + np.exp(2 * u))) * EPSILON * np.abs(y) + TINY
        if activation == "sigmoid":
            y = 1 / (1 + np.exp(-x))
            return y, 7 * EPSILON * y + TINY
    if activation == "identity":
        return x, np.zeros_like(x)
    if activation == "gelu_erf":
        y = 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))
        return y, 0.5 * np.abs(x) * (4 + 1 + 2) * EPSILON + 2 * EPSILON * np.abs(y)
    y = np.maximum(x, 0) ** (2 if activation == "relu2" else 1)
    return y, EPSILON * y


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_activation(runner: Runner, shape: tuple[int, int], activation: str) -> None:
    x = inputs(shape)
    params = {"width": shape[1], "activation": ACTIVATIONS.index(activation)}
    out = runner.run("activation", {"x": x}, params, shape[0], shape)
    expected, bound = reference(x, activation)
    assert (np.abs(out - expected) <= bound).all()


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_gated_activation(runner: Runner, shape: tuple[int, int], activation: str) -> None:
    gate = inputs(shape)
    up = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    params = {"width": shape[1], "activation": ACTIVATIONS.index(activation)}
    out = runner.run("gated_activation", {"gate": gate, "up": up}, params, shape[0], shape)
    expected, bound = reference(gate, activation)
    expected *= up
    assert (np.abs(out - expected) <= bound * np.abs(up) + EPSILON * np.abs(expected)).all()


@pytest.mark.parametrize("activation", ["silu", "gelu_tanh"])
@pytest.mark.parametrize("shape", [*SHAPES, (3, 300)], ids=str)
def test_gated_activation_q8(runner: Runner, shape: tuple[int, int], activation: str) -> None:
    rows, width = shape
    gate = np.clip(inputs(shape), -20, 20)
    gate[-1, 32:64] = 0  # a group of zeros
    up = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    params = {"width": width, "activation": ACTIVATIONS.index(activation)}
    operands = {"gate": gate, "up": up}
    unquantised = runner.run("gated_activation", operands, params, rows, shape)
    out = runner.run("gated_activation_q8", operands, params, rows, {"out": ((rows, row_bytes(width)), np.uint8)})
    np.testing.assert_array_equal(out, Q8Rows.quantize(unquantised).to_bytes())
