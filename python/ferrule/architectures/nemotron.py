"""Nemotron 3 and 4, Minitron: layer norms by 1 + w, squared ReLU without a gate, partial rotation."""

from __future__ import annotations

from ..graph import Graph
from . import blocks
from .config import Config
from .weights import Weights

MODEL_TYPES = ("nemotron",)
ARCHITECTURES = ("NemotronForCausalLM",)
IGNORED_TENSORS = (r"rotary_emb\.inv_freq$",)


def build(g: Graph, c: Config, w: Weights) -> None:
    """Records the forward pass."""
    hidden, heads = c.integer("hidden_size"), blocks.Heads.read(c)
    ffn, vocabulary = c.integer("intermediate_size"), c.integer("vocab_size")
    activation = c.choice("hidden_act", blocks.ACTIVATIONS, "relu2")
    # Hugging Face stores w where the norm multiplies by 1 + w; converters to GGUF store 1 + w.
    offset = 0.0 if c.container == "gguf" else 1.0
    norm = blocks.Norm(c.number("norm_eps", 1e-5), weight_offset=offset, kind="layer")
    c.ignore("attention_bias", "mlp_bias")  # the tensors say which there are

    rotation = blocks.rotation(g, c, w, head_dim=heads.dim, pairing="half", partial=0.5)
    embedding = w.matrix("model.embed_tokens.weight", vocabulary, hidden)
    x = g.embedding(embedding)
    for i in range(c.integer("num_hidden_layers")):
        layer = w.at(f"model.layers.{i}")
        with g.layer(i):
            h = norm(g, x, layer, "input_layernorm", stage="attention norm")
            h = blocks.self_attention(g, h, layer.at("self_attn"), heads, rotation=rotation)
            x = blocks.residual(g, x, h, "attention residual")
            h = norm(g, x, layer, "post_attention_layernorm", stage="ffn norm")
            h = blocks.ffn(g, h, layer.at("mlp"), width=ffn, activation=activation)
            x = blocks.residual(g, x, h, "ffn residual")
    blocks.head(g, x, w, norm=norm, embedding=embedding)
