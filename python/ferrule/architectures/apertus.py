"""Apertus: Llama with norms on query and key heads and a learned activation in an FFN without a gate."""

from __future__ import annotations

import math

import numpy as np

from ..graph import Graph, Value
from . import blocks
from .config import Config
from .weights import Weights

MODEL_TYPES = ("apertus",)
ARCHITECTURES = ("ApertusForCausalLM",)
IGNORED_TENSORS = ()


def build(g: Graph, c: Config, w: Weights) -> None:
    """Records the forward pass."""
    hidden, heads = c.integer("hidden_size"), blocks.Heads.read(c)
    vocabulary = c.integer("vocab_size")
    norm = blocks.Norm(c.number("rms_norm_eps", 1e-5))
    c.expect("hidden_act", "xielu")
    c.expect("post_norm", False)
    c.expect("qk_norm", True)
    c.ignore("attention_bias", "mlp_bias")  # the tensors say which there are

    rotation = blocks.rotation(g, c, w, head_dim=heads.dim, pairing="half", theta=12e6)
    embedding = w.matrix("model.embed_tokens.weight", vocabulary, hidden)
    x = g.embedding(embedding)
    for i in range(c.integer("num_hidden_layers")):
        layer = w.at(f"model.layers.{i}")
        with g.layer(i):
            h = norm(g, x, layer, "attention_layernorm", stage="attention norm")
            h = blocks.self_attention(g, h, layer.at("self_attn"), heads, rotation=rotation, qk_norm=norm)
            x = blocks.residual(g, x, h, "attention residual")
            h = norm(g, x, layer, "feedforward_layernorm", stage="ffn norm")
            x = blocks.residual(g, x, feed_forward(g, h, c, layer.at("mlp"), i), "ffn residual")
    blocks.head(g, x, w, norm=norm, embedding=embedding)


def feed_forward(g: Graph, x: Value, c: Config, w: Weights, layer: int) -> Value:
    """down(xielu(up(x))); the activation's slopes are stored as what softplus makes them of.

    Hugging Face stores its numbers as tensors, GGUF as metadata of all layers.
    """

    def number(name: str) -> float:
        if c.container != "gguf":
            return w.scalar(f"act_fn.{name}")
        return c.of_layer(f"xielu_{name}", layer).number(f"xielu_{name}", above=-math.inf)

    beta, eps = number("beta"), number("eps")
    positive, negative = (float(np.logaddexp(0.0, number(name))) for name in ("alpha_p", "alpha_n"))
    with g.stage("ffn up"):
        up = blocks.linear(g, x, w, "up_proj", c.integer("intermediate_size"))
    with g.stage("ffn activation"):
        mixed = g.xielu(up, positive=positive, negative=beta + negative, beta=beta, eps=eps)
    with g.stage("ffn down"):
        return blocks.linear(g, mixed, w, "down_proj", x.width)
