"""Per-layer embeddings: a small vector of each token for each layer (Gemma 3n, Gemma 4)."""

from __future__ import annotations

import math

from ...graph import Graph, Value
from ..weights import Weights
from .basic import Norm, linear


def per_layer_inputs(g: Graph, x: Value, w: Weights, *, layers: int, width: int, vocabulary: int, norm: Norm) -> Value:
    """The tokens' embeddings for all layers, mixed with a projection of x, the scaled embeddings proper.

    -> [tokens, layers * width]
    """
    with g.stage("per-layer inputs"):
        table = w.matrix("embed_tokens_per_layer.weight", vocabulary, layers * width)
        tokens = g.embedding(table, scale=math.sqrt(width))
        context = linear(g, x, w, "per_layer_model_projection", layers * width)
        context = norm(g, g.scale(context, x.width**-0.5), w, "per_layer_projection_norm", groups=layers)
        return g.scale(g.add(tokens, context), math.sqrt(0.5))


def per_layer_update(
    g: Graph, x: Value, inputs: Value, w: Weights, *, layer: int, width: int, activation: str, norm: Norm
) -> Value:
    """What a layer makes of its part of the inputs, gated by x -> [tokens, hidden]."""
    with g.stage("per-layer gate"):
        gate = linear(g, x, w, "per_layer_input_gate", width)
        mixed = g.gated_activation(gate, g.take_columns(inputs, layer * width, width), activation)
    with g.stage("per-layer projection"):
        mixed = linear(g, mixed, w, "per_layer_projection", x.width)
    return norm(g, mixed, w, "post_per_layer_input_norm", stage="per-layer norm")
