"""Linear attention by the gated delta rule."""

from __future__ import annotations

import numpy as np

from ...graph import Graph, Value
from ..weights import Weights
from .basic import Norm
from .recurrent import decay


def delta_rule(
    g: Graph,
    q: Value,
    k: Value,
    v: Value,
    beta: Value,
    dt: Value,
    w: Weights,
    *,
    heads: int,
    k_dim: int,
    is_log: bool,
    tiled: bool = False,
) -> Value:
    """The recurrence over q and k scaled to unit length, q also by 1 / sqrt(k_dim) -> [tokens, heads * v_dim].

    beta: [tokens, heads], before its sigmoid; dt, tiled: as in Graph.gated_delta_rule; is_log: as in decay.
    """
    with g.stage("delta rule"):
        # x / sqrt(sum x^2 + eps) is the root mean square norm with eps / k_dim, divided by sqrt(k_dim).
        unit = Norm(1e-6 / k_dim)
        q = unit.by_constant(g, q, np.full(k_dim, 1 / k_dim), groups=q.width // k_dim)
        k = unit.by_constant(g, k, np.full(k_dim, k_dim**-0.5), groups=k.width // k_dim)
        a, dt_bias = decay(g, w, "A_log", heads, is_log=is_log), w.vector("dt_bias", dt.width)
        state = g.state(heads, k_dim, v.width // heads)
        beta = g.activation(beta, "sigmoid")
        return g.gated_delta_rule(q, k, v, beta, dt, a, dt_bias, state, tiled=tiled)


def gated_norm(
    g: Graph, x: Value, gate: Value, w: Weights, name: str, *, norm: Norm, heads: int, activation: str
) -> Value:
    """norm(x) per head, times act(gate)."""
    with g.stage("gated norm"):
        return g.gated_activation(gate, norm(g, x, w, name, groups=heads), activation)
