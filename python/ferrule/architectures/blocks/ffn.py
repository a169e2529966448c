"""Dense feed-forward networks. Biases are used where the file has them."""

from __future__ import annotations

from ...graph import Graph, Value
from ..weights import Weights
from .basic import linear


def gated_ffn(
    g: Graph,
    x: Value,
    w: Weights,
    *,
    width: int,
    activation: str,
    names: tuple[str, str, str] = ("gate_proj", "up_proj", "down_proj"),
) -> Value:
    """down(act(gate(x)) * up(x))."""
    with g.stage("ffn gate, up"):
        gate, up = linear(g, x, w, names[0], width), linear(g, x, w, names[1], width)
    with g.stage("ffn activation"):
        mixed = g.gated_activation(gate, up, activation)
    with g.stage("ffn down"):
        return linear(g, mixed, w, names[2], x.width)


def fused_gated_ffn(
    g: Graph,
    x: Value,
    w: Weights,
    *,
    width: int,
    activation: str,
    names: tuple[str, str] = ("gate_up_proj", "down_proj"),
) -> Value:
    """As gated_ffn, from one matrix of the rows of gate, then of up."""
    with g.stage("ffn gate, up"):
        gate = linear(g, x, w, names[0], width, rows=range(width))
        up = linear(g, x, w, names[0], width, rows=range(width, 2 * width))
    with g.stage("ffn activation"):
        mixed = g.gated_activation(gate, up, activation)
    with g.stage("ffn down"):
        return linear(g, mixed, w, names[1], x.width)


def ffn(
    g: Graph,
    x: Value,
    w: Weights,
    *,
    width: int,
    activation: str,
    names: tuple[str, str] = ("up_proj", "down_proj"),
    transposed: bool = False,
) -> Value:
    """down(act(up(x)))."""
    with g.stage("ffn up"):
        up = linear(g, x, w, names[0], width, transposed=transposed)
    with g.stage("ffn activation"):
        mixed = g.activation(up, activation)
    with g.stage("ffn down"):
        return linear(g, mixed, w, names[1], x.width, transposed=transposed)
