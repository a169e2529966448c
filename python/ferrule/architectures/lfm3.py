"""LFM3: short gated convolutions, gated attention with and without windows, norms before and after."""

from __future__ import annotations

from ..graph import Graph, Value
from . import blocks
from .config import Config
from .lfm2 import NAMES, gated_convolution
from .weights import Weights

MODEL_TYPES = ("lfm3",)
ARCHITECTURES = ("Lfm3ForCausalLM",)
IGNORED_TENSORS = ()
KINDS = ("conv", "full_attention", "sliding_attention")


def build(g: Graph, c: Config, w: Weights) -> None:
    """Records the forward pass."""
    hidden, heads, layers = c.integer("hidden_size"), blocks.Heads.read(c), c.integer("num_hidden_layers")
    norm, kernel = blocks.Norm(c.number("norm_eps", 1e-5)), c.integer("conv_L_cache", 3)
    ffn, sandwich = c.integer("intermediate_size"), c.flag("use_sandwich_norm", True)
    gated = c.flag("use_attention_gate", True)
    c.ignore("conv_bias", "attention_bias")  # the tensors say which there are
    kinds = c.choices("layer_types", {kind: kind for kind in KINDS}, count=layers)
    window = c.integer("sliding_window", 0)

    rotations = {
        kind: blocks.rotation(g, c, w, head_dim=heads.dim, pairing="half", layer_type=kind)
        for kind in sorted({*kinds} - {"conv"})
    }
    embedding = w.matrix("model.embed_tokens.weight", c.integer("vocab_size"), hidden)
    x = g.embedding(embedding)
    for i, kind in enumerate(kinds):
        layer = w.at(f"model.layers.{i}")
        with g.layer(i):
            h = norm(g, x, layer, "operator_norm", stage="attention norm")
            if kind == "conv":
                h = gated_convolution(g, h, layer.at("conv"), kernel=kernel)
            else:
                here = window if kind == "sliding_attention" else 0
                h = attention(g, h, layer.at("self_attn"), heads, norm, rotations[kind], here, gated=gated)
            if sandwich:
                h = norm(g, h, layer, "post_operator_norm", stage="attention post norm")
            x = blocks.residual(g, x, h, "attention residual")
            h = norm(g, x, layer, "ffn_norm", stage="ffn norm")
            h = blocks.gated_ffn(g, h, layer.at("feed_forward"), width=ffn, activation="silu", names=NAMES)
            if sandwich:
                h = norm(g, h, layer, "post_ffn_norm", stage="ffn post norm")
            x = blocks.residual(g, x, h, "ffn residual")
    blocks.head(g, x, w, norm=norm, embedding=embedding, norm_name="model.embedding_norm")


def attention(
    g: Graph,
    x: Value,
    w: Weights,
    heads: blocks.Heads,
    norm: blocks.Norm,
    rotation: blocks.Rotation,
    window: int,
    *,
    gated: bool,
) -> Value:
    """Attention with norms on query and key heads and, if `gated`, a sigmoid gate for each head."""
    q, k, v = blocks.project_qkv(g, x, w, heads)
    with g.stage("qk norm"):
        q, k = norm(g, q, w, "q_norm", groups=heads.q), norm(g, k, w, "k_norm", groups=heads.kv)
    mixed = blocks.attend(g, q, k, v, heads, scale=heads.dim**-0.5, rotation=rotation, window=window)
    if gated:
        with g.stage("attention gate"):
            gate = g.activation(blocks.linear(g, x, w, "gate_proj", heads.q), "sigmoid")
            mixed = g.scale_groups(mixed, gate)
    with g.stage("attention output"):
        return blocks.linear(g, mixed, w, "o_proj", x.width)
