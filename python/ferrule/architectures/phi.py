"""Phi-1, Phi-1.5, Phi-2: attention and FFN side by side on one norm, partial rotation."""

from __future__ import annotations

from ..graph import Graph
from . import blocks
from .config import Config
from .weights import Weights

MODEL_TYPES = ("phi",)
ARCHITECTURES = ("PhiForCausalLM",)
IGNORED_TENSORS = (r"rotary_emb\.inv_freq$",)


def build(g: Graph, c: Config, w: Weights) -> None:
    """Records the forward pass."""
    hidden, heads = c.integer("hidden_size"), blocks.Heads.read(c)
    ffn, vocabulary = c.integer("intermediate_size"), c.integer("vocab_size")
    activation = c.choice("hidden_act", blocks.ACTIVATIONS, "gelu_new")
    norm = blocks.Norm(c.number("layer_norm_eps", 1e-5), kind="layer")
    c.expect("qk_layernorm", False)

    rotation = blocks.rotation(g, c, w, head_dim=heads.dim, pairing="half", partial=0.5)
    embedding = w.matrix("model.embed_tokens.weight", vocabulary, hidden)
    x = g.embedding(embedding)
    for i in range(c.integer("num_hidden_layers")):
        layer = w.at(f"model.layers.{i}")
        with g.layer(i):
            h = norm(g, x, layer, "input_layernorm", stage="attention norm")
            mixed = blocks.self_attention(g, h, layer.at("self_attn"), heads, rotation=rotation, output="dense")
            x = blocks.residual(g, x, mixed, "attention residual")
            mixed = blocks.ffn(g, h, layer.at("mlp"), width=ffn, activation=activation, names=("fc1", "fc2"))
            x = blocks.residual(g, x, mixed, "ffn residual")
    blocks.head(g, x, w, norm=norm, embedding=embedding, norm_name="model.final_layernorm")
