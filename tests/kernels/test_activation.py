"""activation, gated_activation, clamped_swiglu and xielu against NumPy float64."""

import math

import numpy as np
import pytest
from kernel_testing import EPSILON, Runner
from quantized_rows import quantized_bytes, row_bytes

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
    params = {"width": shape[1], "activation": ACTIVATIONS.index(activation), "parts": 1, "planes": 0}
    out = runner.run("gated_activation", {"gate": gate, "up": up}, params, shape[0], shape)
    expected, bound = reference(gate, activation)
    expected *= up
    assert (np.abs(out - expected) <= bound * np.abs(up) + EPSILON * np.abs(expected)).all()


@pytest.mark.parametrize(("activation", "planes"), [("silu", 2), ("gelu_tanh", 2), ("silu", 1), ("silu", 0)])
@pytest.mark.parametrize(("shape", "parts"), [*((shape, 1) for shape in SHAPES), ((3, 300), 1), ((2, 400), 2)], ids=str)
def test_gated_activation_quantize(
    runner: Runner, shape: tuple[int, int], parts: int, activation: str, planes: int
) -> None:
    rows, width = shape
    gate = np.clip(inputs(shape), -20, 20)
    gate[-1, 32:64] = 0  # a group of zeros
    up = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    params = {"width": width, "activation": ACTIVATIONS.index(activation), "parts": parts, "planes": planes}
    operands = {"gate": gate, "up": up}
    unquantised = runner.run("gated_activation", operands, params, rows, (rows * parts, width // parts))
    size = row_bytes(width // parts, planes)
    out = runner.run("gated_activation_quantize", operands, params, rows, {"out": ((rows * parts, size), np.uint8)})
    np.testing.assert_array_equal(out, quantized_bytes(unquantised, planes))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_clamped_swiglu(runner: Runner, shape: tuple[int, int]) -> None:
    gate = inputs(shape)
    up = (10 * np.random.default_rng(1).standard_normal(shape)).astype(np.float32)
    params = {"width": shape[1], "alpha": 1.702, "limit": 7.0}
    out = runner.run("clamped_swiglu", {"gate": gate, "up": up}, params, shape[0], shape)
    g, u = np.minimum(gate.astype(np.float64), 7.0), np.clip(up.astype(np.float64), -7.0, 7.0)
    exponent = -np.float64(np.float32(1.702)) * g
    with np.errstate(over="ignore"):
        expected = g / (1 + np.exp(exponent)) * (u + 1)
    # The exponent is off by a rounding, which counts where the exponential does.
    bound = (9 + np.abs(np.clip(exponent, -100, 100))) * EPSILON * np.abs(expected) + np.abs(g) * EPSILON + TINY
    assert (np.abs(out - expected) <= bound).all()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_xielu(runner: Runner, shape: tuple[int, int]) -> None:
    x = inputs(shape)
    params = {"width": shape[1], "positive": 0.8, "negative": 0.3, "beta": 0.5, "eps": -1e-6}
    out = runner.run("xielu", {"x": x}, params, shape[0], shape)
    p, n, b, e = (np.float64(np.float32(params[name])) for name in ("positive", "negative", "beta", "eps"))
    x = x.astype(np.float64)
    expm1 = np.expm1(np.minimum(x, e))
    expected = np.where(x > 0, p * x**2, n * (expm1 - x)) + b * x
    magnitude = np.where(x > 0, p * x**2, n * (np.abs(expm1) + np.abs(x))) + np.abs(b * x)
    assert (np.abs(out - expected) <= 8 * EPSILON * magnitude).all()
