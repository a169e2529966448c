"""OLMo 1: Llama whose norms have no weights, with clipped queries, keys and values."""

from __future__ import annotations

from ..graph import Graph
from . import blocks
from .config import Config
from .weights import Weights

MODEL_TYPES = ("olmo",)
ARCHITECTURES = ("OlmoForCausalLM",)
IGNORED_TENSORS = (r"rotary_emb\.inv_freq$",)


def build(g: Graph, c: Config, w: Weights) -> None:
    """Records the forward pass."""
    hidden, heads = c.integer("hidden_size"), blocks.Heads.read(c)
    ffn, vocabulary = c.integer("intermediate_size"), c.integer("vocab_size")
    activation = c.choice("hidden_act", blocks.ACTIVATIONS, "silu")
    norm, limit = blocks.Norm(1e-5, kind="layer"), c.number("clip_qkv", 0.0)
    c.expect("attention_bias", False)

    # Converters to GGUF permute the rows of q and k of this family, so that pairs become neighbours.
    pairing = "adjacent" if c.container == "gguf" else "half"
    rotation = blocks.rotation(g, c, w, head_dim=heads.dim, pairing=pairing)
    embedding = w.matrix("model.embed_tokens.weight", vocabulary, hidden)
    x = g.embedding(embedding)
    for i in range(c.integer("num_hidden_layers")):
        layer = w.at(f"model.layers.{i}")
        with g.layer(i):
            h = norm(g, x, layer, None, stage="attention norm")
            h = blocks.self_attention(g, h, layer.at("self_attn"), heads, rotation=rotation, clip=limit)
            x = blocks.residual(g, x, h, "attention residual")
            h = norm(g, x, layer, None, stage="ffn norm")
            h = blocks.gated_ffn(g, h, layer.at("mlp"), width=ffn, activation=activation)
            x = blocks.residual(g, x, h, "ffn residual")
    blocks.head(g, x, w, norm=norm, embedding=embedding, norm_name=None)
