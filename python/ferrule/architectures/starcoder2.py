"""StarCoder2: layer norms, biases everywhere, an FFN without a gate, optionally windows."""

from __future__ import annotations

from ..graph import Graph
from . import blocks
from .config import Config
from .weights import Weights

MODEL_TYPES = ("starcoder2",)
ARCHITECTURES = ("Starcoder2ForCausalLM",)
IGNORED_TENSORS = (r"rotary_emb\.inv_freq$",)


def build(g: Graph, c: Config, w: Weights) -> None:
    """Records the forward pass."""
    hidden, heads = c.integer("hidden_size"), blocks.Heads.read(c)
    ffn, vocabulary = c.integer("intermediate_size"), c.integer("vocab_size")
    activation = c.choice("hidden_act", blocks.ACTIVATIONS, "gelu_pytorch_tanh")
    norm, window = blocks.Norm(c.number("norm_epsilon", 1e-5), kind="layer"), c.integer("sliding_window", 0)
    c.ignore("use_bias", "embedding_dropout")
    c.expect("mlp_type", "default")
    c.expect("norm_type", "layer_norm")

    rotation = blocks.rotation(g, c, w, head_dim=heads.dim, pairing="half")
    embedding = w.matrix("model.embed_tokens.weight", vocabulary, hidden)
    x = g.embedding(embedding)
    for i in range(c.integer("num_hidden_layers")):
        layer = w.at(f"model.layers.{i}")
        with g.layer(i):
            h = norm(g, x, layer, "input_layernorm", stage="attention norm")
            h = blocks.self_attention(g, h, layer.at("self_attn"), heads, rotation=rotation, window=window)
            x = blocks.residual(g, x, h, "attention residual")
            h = norm(g, x, layer, "post_attention_layernorm", stage="ffn norm")
            h = blocks.ffn(g, h, layer.at("mlp"), width=ffn, activation=activation, names=("c_fc", "c_proj"))
            x = blocks.residual(g, x, h, "ffn residual")
    blocks.head(g, x, w, norm=norm, embedding=embedding)
