"""GPT-NeoX, Pythia: attention and FFN side by side on two norms, or in turn; partial rotation."""

from __future__ import annotations

from ..graph import Graph
from . import blocks
from .config import Config
from .weights import Weights

MODEL_TYPES = ("gpt_neox",)
ARCHITECTURES = ("GPTNeoXForCausalLM",)
IGNORED_TENSORS = (r"rotary_emb\.inv_freq$", r"attention\.(masked_)?bias$")
NAMES = ("dense_h_to_4h", "dense_4h_to_h")


def build(g: Graph, c: Config, w: Weights) -> None:
    """Records the forward pass."""
    hidden, heads = c.integer("hidden_size"), blocks.Heads.read(c)
    ffn, vocabulary = c.integer("intermediate_size"), c.integer("vocab_size")
    activation = c.choice("hidden_act", blocks.ACTIVATIONS, "gelu")
    norm = blocks.Norm(c.number("layer_norm_eps", 1e-5), kind="layer")
    parallel = c.flag("use_parallel_residual", True)
    c.ignore("attention_bias", "classifier_dropout", "is_decoder")

    partial, theta = c.number("rotary_pct", 0.25), c.number("rotary_emb_base", 10000.0)
    rotation = blocks.rotation(g, c, w, head_dim=heads.dim, pairing="half", theta=theta, partial=partial)
    embedding = w.matrix("gpt_neox.embed_in.weight", vocabulary, hidden)
    x = g.embedding(embedding)
    for i in range(c.integer("num_hidden_layers")):
        layer = w.at(f"gpt_neox.layers.{i}")
        attention = layer.at("attention")
        with g.layer(i):
            h = norm(g, x, layer, "input_layernorm", stage="attention norm")
            # GGUF holds all queries, all keys, all values.
            qkv = blocks.fused_qkv(g, h, attention, "query_key_value", heads, by_parts=c.container == "gguf")
            h = blocks.attend(g, *qkv, heads, scale=heads.dim**-0.5, rotation=rotation)
            with g.stage("attention output"):
                h = blocks.linear(g, h, attention, "dense", hidden)
            attended = blocks.residual(g, x, h, "attention residual")
            h = norm(g, x if parallel else attended, layer, "post_attention_layernorm", stage="ffn norm")
            h = blocks.ffn(g, h, layer.at("mlp"), width=ffn, activation=activation, names=NAMES)
            x = blocks.residual(g, attended, h, "ffn residual")
    blocks.head(g, x, w, norm=norm, embedding=embedding, norm_name="gpt_neox.final_layer_norm", name="embed_out")
