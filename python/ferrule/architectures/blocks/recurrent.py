"""State space mixers: a causal convolution, then a recurrence whose step depends on the token."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...graph import Graph, Value, Weight
from ..weights import Weights
from .basic import Norm, linear, whole


def convolution(g: Graph, x: Value, w: Weights, name: str, *, kernel: int, activation: str = "silu") -> Value:
    """Depthwise causal convolution by `<name>.weight` [channels, 1, kernel], then the activation."""
    weight = g.constant(name, w.array(f"{name}.weight", x.width, kernel))
    state = g.state(kernel - 1, x.width)
    mixed = g.causal_conv1d(x, weight, w.optional_vector(f"{name}.bias", x.width), state)
    return mixed if activation == "identity" else g.activation(mixed, activation)


def decay(g: Graph, w: Weights, name: str, *shape: int, is_log: bool) -> Weight:
    """The negative rates of a recurrence, stored as such or as the logarithm of their magnitude."""
    stored = w.array(name, *shape)
    return g.constant(name, -np.exp(stored) if is_log else stored)


def mamba(
    g: Graph,
    x: Value,
    w: Weights,
    *,
    inner: int,
    state: int,
    rank: int,
    kernel: int,
    is_log: bool,
    norms: Callable[[Value, str], Value] = lambda x, name: x,
) -> Value:
    """Mamba (Gu & Dao 2023): `inner` channels with `state` values each -> [tokens, hidden].

    `rank` is the width of the step sizes before their projection; norms(x, name) is applied to the inputs "dt", "b",
    "c" of the recurrence; `is_log` as in decay.
    """
    with g.stage("ssm in"):
        values = linear(g, x, w, "in_proj", inner, rows=range(inner))
        gate = linear(g, x, w, "in_proj", inner, rows=range(inner, 2 * inner))
    with g.stage("ssm convolution"):
        values = convolution(g, values, w, "conv1d", kernel=kernel)
    with g.stage("ssm parameters"):
        steps = norms(linear(g, values, w, "x_proj", rank, rows=range(rank)), "dt")
        b = norms(linear(g, values, w, "x_proj", state, rows=range(rank, rank + state)), "b")
        c = norms(linear(g, values, w, "x_proj", state, rows=range(rank + state, rank + 2 * state)), "c")
        dt = linear(g, steps, w, "dt_proj", inner)
    with g.stage("ssm scan"):
        a, d = decay(g, w, "A_log", inner, state, is_log=is_log), w.vector("D", inner)
        mixed = g.ssm_scan(values, dt, b, c, a, d, None, g.state(inner, 1, state))
    with g.stage("ssm out"):
        return linear(g, g.gated_activation(gate, mixed, "silu"), w, "out_proj", x.width)


def mamba2(
    g: Graph,
    x: Value,
    w: Weights,
    *,
    heads: int,
    head_dim: int,
    groups: int,
    state: int,
    kernel: int,
    dt_limits: tuple[float, float],
    is_log: bool,
    norm: Norm | None,
    multipliers: tuple[float, float, float, float, float] = (1.0, 1.0, 1.0, 1.0, 1.0),
) -> Value:
    """Mamba 2 (Dao & Gu 2024): heads that share inputs in groups -> [tokens, hidden].

    `norm` is applied to the gated result, in `groups` parts of a row. `multipliers` scale what the input projection
    gives: gate, values, b, c and step sizes.
    """
    whole(heads, groups, "heads of a recurrence", path=w.path)
    inner, shared = heads * head_dim, groups * state
    mixed = inner + 2 * shared
    gate_by, x_by, b_by, c_by, dt_by = multipliers
    with g.stage("ssm in"):
        gate = g.scale(linear(g, x, w, "in_proj", inner, rows=range(inner)), gate_by)
        xbc = linear(g, x, w, "in_proj", mixed, rows=range(inner, inner + mixed))
        dt = g.scale(linear(g, x, w, "in_proj", heads, rows=range(inner + mixed, inner + mixed + heads)), dt_by)
        if (x_by, b_by, c_by) != (1.0, 1.0, 1.0):
            factors = np.repeat([x_by, b_by, c_by], [inner, shared, shared])
            xbc = g.scale_columns(xbc, g.constant("multipliers", factors))
    with g.stage("ssm convolution"):
        xbc = convolution(g, xbc, w, "conv1d", kernel=kernel)
        values, b = g.take_columns(xbc, 0, inner), g.take_columns(xbc, inner, shared)
        c = g.take_columns(xbc, inner + shared, shared)
    with g.stage("ssm scan"):
        a, d, dt_bias = decay(g, w, "A_log", heads, 1, is_log=is_log), w.vector("D", heads), w.vector("dt_bias", heads)
        low, high = dt_limits
        states = g.state(heads, head_dim, state)
        out = g.ssm_scan(values, dt, b, c, a, d, dt_bias, states, dt_min=low, dt_max=high)
    with g.stage("ssm out"):
        out = g.gated_activation(gate, out, "silu")
        if norm is not None:
            out = norm(g, out, w, "norm", groups=groups, shared=False)
        return linear(g, out, w, "out_proj", x.width)
