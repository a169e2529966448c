"""Rotation of queries and keys by position."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ...errors import CorruptFile
from ...graph import Graph, Value
from .. import rope
from ..config import Config
from ..weights import Weights


@dataclass(frozen=True)
class Rotation:
    """The step's table of angles, and which values of a head form a pair ("half" or "adjacent")."""

    table: Value
    pairing: str
    path: str

    def __call__(self, g: Graph, x: Value, head_dim: int) -> Value:
        """Turns the first values of every head of x [tokens, heads * head_dim]."""
        if self.table.width > head_dim:
            expected = f"at most {head_dim} values"
            raise CorruptFile(
                "the rotated part of a head", path=self.path, expected=expected, found=str(self.table.width)
            )
        return g.rope(x, self.table, head_dim=head_dim, pairing=self.pairing)


def rotation(
    g: Graph,
    c: Config,
    w: Weights,
    *,
    head_dim: int,
    pairing: str,
    layer_type: str | None = None,
    theta: float = 10000.0,
    partial: float = 1.0,
    applied: Iterable[str] = (),
    divided: bool = True,
) -> Rotation:
    """The rotation that a config describes; GGUF's `rope_freqs.weight` divides the frequencies, if `divided`.

    `layer_type`, `theta` and `partial` as in rope.parameters; the family itself applies the parameters `applied`.
    """
    parameters = rope.parameters(c, layer_type=layer_type, theta=theta, partial=partial, applied=applied)
    divisors = None
    if divided and "rope_freqs.weight" in w:
        pairs = int(head_dim * parameters.number("partial_rotary_factor")) // 2
        divisors = w.array("rope_freqs.weight", pairs).astype("float64")
    name = "rope frequencies" if layer_type is None else f"rope frequencies, {layer_type}"
    with g.stage("rope table"):
        table = rope.table(g, parameters, head_dim=head_dim, divisors=divisors, name=name)
    return Rotation(table, pairing, c.path)


def sharpening(g: Graph, c: Config) -> Callable[[Value], Value]:
    """What `llama_4_scaling_beta` among the RoPE parameters does: queries grow with the original contexts passed."""
    parameters = rope.parameters(c)
    beta = parameters.number("llama_4_scaling_beta", 0.0)
    if not beta:
        return lambda q: q
    period = parameters.number("original_max_position_embeddings", above=0.0)
    return lambda q: g.scale_by_position(q, beta=beta, period=period, offset=0)
