"""Pieces that several families share, with explicit arguments: no config object reaches them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import UnsupportedArchitecture
from ..graph import CacheLayer, Graph, Value, Weight
from . import rope
from .config import Config
from .weights import Weights

ACTIVATIONS = {
    "silu": "silu",
    "swish": "silu",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu": "gelu_erf",
    "relu": "relu",
    "relu2": "relu2",
}
"""`hidden_act` of a config -> activation of `csrc/params/activation.h`."""


def windows(layer_types: Sequence[str], window: int, layers: int, *, path: str) -> list[int]:
    """Window of each layer: `window` for "sliding_attention", 0 (unlimited) for "full_attention"."""
    unknown = set(layer_types) - {"full_attention", "sliding_attention"}
    if unknown or len(layer_types) != layers:
        raise UnsupportedArchitecture(
            "layer_types", path=path, expected=f"{layers} of full_attention, sliding_attention", found=str(list(layer_types))
        )
    return [window if layer_type == "sliding_attention" else 0 for layer_type in layer_types]


@dataclass(frozen=True)
class Norm:
    """How a family normalises: variance floor, and what is added to stored weights (1 where the file holds w - 1)."""

    eps: float
    weight_offset: float = 0.0

    def __call__(self, g: Graph, x: Value, weight: Weight | None, *, groups: int = 1) -> Value:
        return g.rms_norm(x, weight, self.eps, weight_offset=self.weight_offset, groups=groups)


@dataclass(frozen=True)
class Rotation:
    """The step's table of angles, and which values of a head form a pair ("half" or "adjacent")."""

    table: Value
    pairing: str

    def __call__(self, g: Graph, x: Value, head_dim: int) -> Value:
        return g.rope(x, self.table, head_dim=head_dim, pairing=self.pairing)


def rotation(g: Graph, c: Config, w: Weights, *, head_dim: int, pairing: str, layer_type: str | None = None, theta: float = 10000.0) -> Rotation:
    """The rotation that a config describes; GGUF's `rope_freqs.weight` divides the frequencies."""
    parameters = rope.parameters(c, layer_type=layer_type, theta=theta)
    max_positions = c.integer("max_position_embeddings", 0)
    values, scale = rope.frequencies(parameters, head_dim=head_dim, max_positions=max_positions, path=c.path)
    if "rope_freqs.weight" in w:
        values = values / w.vector("rope_freqs.weight", len(values)).data.view("float32")
    name = "rope frequencies" if layer_type is None else f"rope frequencies, {layer_type}"
    with g.stage("rope table"):
        return Rotation(g.rope_table(g.constant(name, values), scale), pairing)


def self_attention(
    g: Graph,
    x: Value,
    w: Weights,
    *,
    heads: int,
    kv_heads: int,
    head_dim: int,
    scale: float,
    rotation: Rotation | None,
    window: int = 0,
    softcap: float = 0.0,
    qk_norm: Norm | None = None,
) -> Value:
    """Grouped-query attention over a new cache layer -> [tokens, hidden]. Biases are used where the file has them.

    `qk_norm` normalises queries and keys per head, before the rotation.
    """
    hidden = x.width

    def project(name: str, x: Value, n_out: int) -> Value:
        return g.linear(x, w.matrix(f"{name}.weight", n_out, x.width), w.optional_vector(f"{name}.bias", n_out))

    with g.stage("qkv"):
        q = project("q_proj", x, heads * head_dim)
        k = project("k_proj", x, kv_heads * head_dim)
        v = project("v_proj", x, kv_heads * head_dim)
    if qk_norm is not None:
        with g.stage("qk norm"):
            q = qk_norm(g, q, w.vector("q_norm.weight", head_dim), groups=heads)
            k = qk_norm(g, k, w.vector("k_norm.weight", head_dim), groups=kv_heads)
    if rotation is not None:
        with g.stage("rope"):
            q, k = rotation(g, q, head_dim), rotation(g, k, head_dim)
    cache: CacheLayer = g.cache(kv_heads, head_dim, head_dim, window)
    with g.stage("kv append"):
        g.kv_append(cache, k, v)
    with g.stage("attention"):
        mixed = g.attention(q, cache, scale=scale, window=window, softcap=softcap)
    with g.stage("attention output"):
        return project("o_proj", mixed, hidden)


def gated_ffn(g: Graph, x: Value, w: Weights, *, width: int, activation: str) -> Value:
    """down(act(gate(x)) * up(x)). Biases are used where the file has them."""

    def project(name: str, x: Value, n_out: int) -> Value:
        return g.linear(x, w.matrix(f"{name}.weight", n_out, x.width), w.optional_vector(f"{name}.bias", n_out))

    with g.stage("ffn gate, up"):
        gate, up = project("gate_proj", x, width), project("up_proj", x, width)
    with g.stage("ffn activation"):
        mixed = g.gated_activation(gate, up, activation)
    with g.stage("ffn down"):
        return project("down_proj", mixed, x.width)


def head(g: Graph, x: Value, w: Weights, *, norm: Norm, embedding: Weight, softcap: float = 0.0) -> None:
    """Final norm and logits of the wanted rows; without a `lm_head` the embedding is the head."""
    with g.stage("logits"):
        x = norm(g, g.take_rows(x), w.vector("model.norm.weight", x.width))
        matrix = w.matrix("lm_head.weight", *embedding.shape) if "lm_head.weight" in w else embedding
        logits = g.linear(x, matrix, w.optional_vector("lm_head.bias", embedding.shape[0]))
        g.output = g.softcap(logits, softcap)
