"""Phi-3, Phi-3.5, Phi-4 and Phi-4-mini: Llama with fused projections, partial rotation and longrope."""

from __future__ import annotations

from ..graph import Graph
from . import blocks
from .config import Config
from .weights import Weights

MODEL_TYPES = ("phi3",)
ARCHITECTURES = ("Phi3ForCausalLM",)
IGNORED_TENSORS = (r"rotary_emb\.inv_freq$", r"^rope_factors_(long|short)\.weight$")


def build(g: Graph, c: Config, w: Weights) -> None:
    """Records the forward pass."""
    hidden, heads = c.integer("hidden_size"), blocks.Heads.read(c)
    ffn, vocabulary = c.integer("intermediate_size"), c.integer("vocab_size")
    activation = c.choice("hidden_act", blocks.ACTIVATIONS, "silu")
    norm = blocks.Norm(c.number("rms_norm_eps", 1e-5))
    window = c.integer("sliding_window", 0)
    c.ignore("attention_bias", "embd_pdrop", "resid_pdrop")

    rotation = blocks.rotation(g, c, w, head_dim=heads.dim, pairing="half")
    embedding = w.matrix("model.embed_tokens.weight", vocabulary, hidden)
    x = g.embedding(embedding)
    for i in range(c.integer("num_hidden_layers")):
        layer = w.at(f"model.layers.{i}")
        attention = layer.at("self_attn")
        with g.layer(i):
            h = norm(g, x, layer, "input_layernorm", stage="attention norm")
            qkv = blocks.fused_qkv(g, h, attention, "qkv_proj", heads, by_parts=True)
            h = blocks.attend(g, *qkv, heads, scale=heads.dim**-0.5, rotation=rotation, window=window)
            with g.stage("attention output"):
                h = blocks.linear(g, h, attention, "o_proj", hidden)
            x = blocks.residual(g, x, h, "attention residual")
            h = norm(g, x, layer, "post_attention_layernorm", stage="ffn norm")
            h = blocks.fused_gated_ffn(g, h, layer.at("mlp"), width=ffn, activation=activation)
            x = blocks.residual(g, x, h, "ffn residual")
    blocks.head(g, x, w, norm=norm, embedding=embedding)
