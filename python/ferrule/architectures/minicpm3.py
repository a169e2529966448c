"""MiniCPM3: latent attention with split-half rotation, and multipliers by depth and width."""

from __future__ import annotations

from ..graph import Graph
from . import blocks
from .config import Config
from .deepseek import latent_attention
from .weights import Weights

MODEL_TYPES = ("minicpm3",)
ARCHITECTURES = ("MiniCPM3ForCausalLM",)
IGNORED_TENSORS = (r"rotary_emb\.inv_freq$",)


def build(g: Graph, c: Config, w: Weights) -> None:
    """Records the forward pass."""
    hidden, layers = c.integer("hidden_size"), c.integer("num_hidden_layers")
    ffn, vocabulary = c.integer("intermediate_size"), c.integer("vocab_size")
    activation = c.choice("hidden_act", blocks.ACTIVATIONS, "silu")
    norm = blocks.Norm(c.number("rms_norm_eps", 1e-6))
    c.ignore("attention_bias", "mlp_bias")  # the tensors say which there are
    c.ignore("num_key_value_heads", "head_dim", "qk_head_dim")
    factor = c.number("scale_depth", layers**0.5) / layers**0.5

    rotation = blocks.rotation(g, c, w, head_dim=c.integer("qk_rope_head_dim"), pairing="half")
    embedding = w.matrix("model.embed_tokens.weight", vocabulary, hidden)
    x = g.embedding(embedding, scale=c.number("scale_emb", 1.0))
    for i in range(layers):
        layer = w.at(f"model.layers.{i}")
        with g.layer(i):
            h = norm(g, x, layer, "input_layernorm", stage="attention norm")
            h = latent_attention(g, h, c, layer.at("self_attn"), rotation)
            x = blocks.residual(g, x, h, "attention residual", factor=factor)
            h = norm(g, x, layer, "post_attention_layernorm", stage="ffn norm")
            h = blocks.gated_ffn(g, h, layer.at("mlp"), width=ffn, activation=activation)
            x = blocks.residual(g, x, h, "ffn residual", factor=factor)
    scale = c.number("dim_model_base", hidden) / hidden
    blocks.head(g, x, w, norm=norm, embedding=embedding, scale=scale)
