"""BitNet, as float weights: Llama with norms inside attention and FFN, before their last projections."""

from __future__ import annotations

from ..graph import Graph, Value
from . import blocks
from .config import Config
from .weights import Weights

MODEL_TYPES = ("bitnet",)
ARCHITECTURES = ("BitNetForCausalLM",)
IGNORED_TENSORS = ()


def build(g: Graph, c: Config, w: Weights) -> None:
    """Records the forward pass."""
    hidden, heads = c.integer("hidden_size"), blocks.Heads.read(c)
    ffn, vocabulary = c.integer("intermediate_size"), c.integer("vocab_size")
    activation = c.choice("hidden_act", blocks.ACTIVATIONS, "relu2")
    norm = blocks.Norm(c.number("rms_norm_eps", 1e-5))
    c.ignore("attention_bias")  # the tensors say

    rotation = blocks.rotation(g, c, w, head_dim=heads.dim, pairing="half", theta=500000.0)
    embedding = w.matrix("model.embed_tokens.weight", vocabulary, hidden)
    x = g.embedding(embedding)
    for i in range(c.integer("num_hidden_layers")):
        layer = w.at(f"model.layers.{i}")
        attention = layer.at("self_attn")
        with g.layer(i):
            h = norm(g, x, layer, "input_layernorm", stage="attention norm")
            qkv = blocks.project_qkv(g, h, attention, heads)
            h = blocks.attend(g, *qkv, heads, scale=heads.dim**-0.5, rotation=rotation)
            h = norm(g, h, attention, "attn_sub_norm", stage="attention inner norm")
            with g.stage("attention output"):
                h = blocks.linear(g, h, attention, "o_proj", hidden)
            x = blocks.residual(g, x, h, "attention residual")
            h = norm(g, x, layer, "post_attention_layernorm", stage="ffn norm")
            x = blocks.residual(g, x, feed_forward(g, h, layer.at("mlp"), norm, ffn, activation), "ffn residual")
    blocks.head(g, x, w, norm=norm, embedding=embedding)


def feed_forward(g: Graph, x: Value, w: Weights, norm: blocks.Norm, width: int, activation: str) -> Value:
    """down(norm(act(gate(x)) * up(x)))."""
    with g.stage("ffn gate, up"):
        gate, up = blocks.linear(g, x, w, "gate_proj", width), blocks.linear(g, x, w, "up_proj", width)
    with g.stage("ffn activation"):
        mixed = g.gated_activation(gate, up, activation)
    mixed = norm(g, mixed, w, "ffn_sub_norm", stage="ffn inner norm")
    with g.stage("ffn down"):
        return blocks.linear(g, mixed, w, "down_proj", x.width)
