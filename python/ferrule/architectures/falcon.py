"""Falcon: attention and FFN side by side on one norm or two, or in turn with linear position biases."""

from __future__ import annotations

from ..graph import Graph
from . import blocks
from .config import Config
from .weights import Weights

MODEL_TYPES = ("falcon", "RefinedWeb", "RefinedWebModel")
ARCHITECTURES = ("FalconForCausalLM", "RWForCausalLM")
IGNORED_TENSORS = (r"rotary_emb\.inv_freq$",)
NAMES = ("dense_h_to_4h", "dense_4h_to_h")


def build(g: Graph, c: Config, w: Weights) -> None:
    """Records the forward pass."""
    hidden, n_heads = c.integer("hidden_size"), c.integer("num_attention_heads")
    new, parallel = c.flag("new_decoder_architecture", False), c.flag("parallel_attn", True)
    multi_query, n_kv = c.flag("multi_query", True), c.integer("num_kv_heads", n_heads)
    heads = blocks.Heads.of(c, n_heads, n_kv if new else 1 if multi_query else n_heads, hidden // n_heads)
    ffn, vocabulary = c.integer("ffn_hidden_size", 4 * hidden), c.integer("vocab_size")
    activation = c.choice("activation", blocks.ACTIVATIONS, "gelu")
    norm = blocks.Norm(c.number("layer_norm_epsilon", 1e-5), kind="layer")
    two_norms = new and c.integer("num_ln_in_parallel_attn", 2) == 2
    c.ignore("bias")  # the tensors say which there are
    c.expect("apply_residual_connection_post_layernorm", False)

    scale, rotation, slopes = heads.dim**-0.5, None, None
    if c.flag("alibi", False):
        # The biases are added before scores are scaled.
        slopes = blocks.alibi_slopes(g, n_heads, factor=scale)
        c.ignore("rope_parameters", "rope_theta", "rope_scaling")
    else:
        rotation = blocks.rotation(g, c, w, head_dim=heads.dim, pairing="half")
    embedding = w.matrix("transformer.word_embeddings.weight", vocabulary, hidden)
    x = g.embedding(embedding)
    for i in range(c.integer("num_hidden_layers")):
        layer = w.at(f"transformer.h.{i}")
        attention = layer.at("self_attention")
        with g.layer(i):
            h = norm(g, x, layer, "ln_attn" if two_norms else "input_layernorm", stage="attention norm")
            # GGUF holds all queries, all keys, all values.
            qkv = blocks.fused_qkv(g, h, attention, "query_key_value", heads, by_parts=c.container == "gguf")
            mixed = blocks.attend(g, *qkv, heads, scale=scale, rotation=rotation, slopes=slopes)
            with g.stage("attention output"):
                mixed = blocks.linear(g, mixed, attention, "dense", hidden)
            attended = blocks.residual(g, x, mixed, "attention residual")
            if two_norms:
                # GGUF calls the first of two norms by the name of the only one.
                name = "ln_mlp" if c.container != "gguf" else "input_layernorm"
                h = norm(g, x, layer, name, stage="ffn norm")
            elif not (parallel or new):
                h = norm(g, attended, layer, "post_attention_layernorm", stage="ffn norm")
            h = blocks.ffn(g, h, layer.at("mlp"), width=ffn, activation=activation, names=NAMES)
            x = blocks.residual(g, attended, h, "ffn residual")
    blocks.head(g, x, w, norm=norm, embedding=embedding, norm_name="transformer.ln_f")
