"""OPT: learned positions from row 2 of their table, an FFN of one activation."""

from __future__ import annotations

from ..graph import Graph
from . import blocks
from .config import Config
from .weights import Weights

MODEL_TYPES = ("opt",)
ARCHITECTURES = ("OPTForCausalLM",)
IGNORED_TENSORS = ()


def build(g: Graph, c: Config, w: Weights) -> None:
    """Records the forward pass."""
    hidden, heads = c.integer("hidden_size"), blocks.Heads.read(c)
    ffn, vocabulary = c.integer("ffn_dim"), c.integer("vocab_size")
    activation = c.choice("activation_function", blocks.ACTIVATIONS, "relu")
    norm = blocks.Norm(1e-5, kind="layer")
    c.expect("do_layer_norm_before", True)
    c.expect("_remove_final_layer_norm", False)
    c.expect("word_embed_proj_dim", hidden)
    c.expect("layer_norm_elementwise_affine", True)
    c.ignore("enable_bias", "dropout", "layerdrop", "activation_dropout", "init_std", "prefix")

    w = w.at("model.decoder") if "model.decoder.embed_tokens.weight" in w else w.at("decoder")
    embedding = w.matrix("embed_tokens.weight", vocabulary, hidden)
    x = g.embedding(embedding)
    with g.stage("position embedding"):
        n = c.integer("max_position_embeddings")
        w.matrix("embed_positions.weight", 2, hidden, rows=range(2))  # of no position
        rows = range(2, n + 2)
        x = g.add(x, g.embedding(w.matrix("embed_positions.weight", n, hidden, rows=rows), index="positions"))
    for i in range(c.integer("num_hidden_layers")):
        layer = w.at(f"layers.{i}")
        with g.layer(i):
            h = norm(g, x, layer, "self_attn_layer_norm", stage="attention norm")
            h = blocks.self_attention(g, h, layer.at("self_attn"), heads, rotation=None, output="out_proj")
            x = blocks.residual(g, x, h, "attention residual")
            h = norm(g, x, layer, "final_layer_norm", stage="ffn norm")
            h = blocks.ffn(g, h, layer, width=ffn, activation=activation, names=("fc1", "fc2"))
            x = blocks.residual(g, x, h, "ffn residual")
    blocks.head(g, x, w, norm=norm, embedding=embedding, norm_name="final_layer_norm")
