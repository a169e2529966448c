"""Mixtures of experts: a router chooses a few networks for each token."""

from __future__ import annotations

from typing import Any

from ...errors import CorruptFile
from ...graph import Experts, Graph, Value
from ..weights import Weights
from .basic import linear

Names = tuple[str, str, str]
GATE_UP_DOWN: Names = ("gate_proj", "up_proj", "down_proj")


def route(
    g: Graph,
    x: Value,
    w: Weights,
    experts: int,
    *,
    k: int,
    name: str = "gate",
    groups: int = 1,
    top_groups: int = 1,
    **choice: Any,
) -> Value:
    """The experts chosen for x by the router `<name>.weight` [experts, hidden]; other arguments as in Graph.route.

    Raises CorruptFile where there are not so many experts, or groups of them.
    """
    if experts % groups or top_groups > groups or not 0 < k <= experts // groups * top_groups:
        raise CorruptFile(
            "the config's experts",
            path=w.path,
            expected="equal groups, some of which hold as many experts as are chosen",
            found=f"{k} of {experts} experts, from {top_groups} of {groups} groups",
        )
    with g.stage("router"):
        return g.route(linear(g, x, w, name, experts), k=k, groups=groups, top_groups=top_groups, **choice)


def gated_experts(
    g: Graph,
    x: Value,
    routes: Value,
    w: Weights,
    *,
    experts: int,
    width: int,
    activation: str,
    names: Names = GATE_UP_DOWN,
) -> Value:
    """Weighted sum over the chosen experts of down(act(gate(x)) * up(x)).

    `w` holds them apart or, under GATE_UP_DOWN's names, gate and up in one `gate_up_proj` [experts, 2 * width, hidden].
    """
    hidden = x.width
    if "gate_up_proj" in w:
        gate = w.experts("gate_up_proj", experts, width, hidden, rows=range(width))
        up = w.experts("gate_up_proj", experts, width, hidden, rows=range(width, 2 * width))
    else:
        gate, up = (w.experts(name, experts, width, hidden) for name in names[:2])
    return mix_gated(g, x, routes, gate, up, w.experts(names[2], experts, hidden, width), activation)


def mix_gated(g: Graph, x: Value, routes: Value, gate: Experts, up: Experts, down: Experts, activation: str) -> Value:
    """As gated_experts, of matrices at hand."""
    with g.stage("experts gate, up"):
        gated, upped = g.expert_linear(x, routes, gate), g.expert_linear(x, routes, up)
    with g.stage("experts activation"):
        mixed = g.gated_activation(gated, upped, activation)
    return mix_down(g, mixed, routes, down)


def mix_down(g: Graph, mixed: Value, routes: Value, down: Experts) -> Value:
    """Weighted sum of the chosen experts' down projections of mixed [tokens, k * width]."""
    with g.stage("experts down"):
        parts = g.expert_linear(mixed, routes, down)
    with g.stage("experts sum"):
        return g.expert_sum(parts, routes)


def plain_experts(
    g: Graph,
    x: Value,
    routes: Value,
    w: Weights,
    *,
    experts: int,
    width: int,
    activation: str,
    names: tuple[str, str] = ("up_proj", "down_proj"),
) -> Value:
    """Weighted sum over the chosen experts of down(act(up(x)))."""
    with g.stage("experts up"):
        up = g.expert_linear(x, routes, w.experts(names[0], experts, width, x.width))
    with g.stage("experts activation"):
        mixed = g.activation(up, activation)
    return mix_down(g, mixed, routes, w.experts(names[1], experts, x.width, width))
