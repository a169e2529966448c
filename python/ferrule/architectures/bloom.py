"""BLOOM: a norm on embeddings, linear position biases, one fused projection."""

from __future__ import annotations

from ..graph import Graph
from . import blocks
from .config import Config
from .weights import Weights

MODEL_TYPES = ("bloom",)
ARCHITECTURES = ("BloomForCausalLM",)
IGNORED_TENSORS = ()
NAMES = ("dense_h_to_4h", "dense_4h_to_h")


def build(g: Graph, c: Config, w: Weights) -> None:
    """Records the forward pass."""
    hidden = c.integer(c.present("hidden_size", "n_embed"))
    n_heads = c.integer(c.present("n_head", "num_attention_heads"))
    heads, vocabulary = blocks.Heads.of(c, n_heads, n_heads, hidden // n_heads), c.integer("vocab_size")
    norm = blocks.Norm(c.number("layer_norm_epsilon", 1e-5), kind="layer")
    c.expect("apply_residual_connection_post_layernorm", False)
    c.ignore("slow_but_exact", "attention_softmax_in_fp32", "masked_softmax_fusion", "offset_alibi", "seq_length")
    c.ignore("skip_bias_add", "skip_bias_add_qkv", "bias_dropout_fusion", "n_inner", "unk_token_id")

    slopes = blocks.alibi_slopes(g, n_heads)
    w = w.at("transformer") if "transformer.word_embeddings.weight" in w else w
    embedding = w.matrix("word_embeddings.weight", vocabulary, hidden)
    x = norm(g, g.embedding(embedding), w, "word_embeddings_layernorm", stage="embedding norm")
    for i in range(c.integer(c.present("n_layer", "num_hidden_layers"))):
        layer = w.at(f"h.{i}")
        attention = layer.at("self_attention")
        with g.layer(i):
            h = norm(g, x, layer, "input_layernorm", stage="attention norm")
            # GGUF holds all queries, all keys, all values.
            qkv = blocks.fused_qkv(g, h, attention, "query_key_value", heads, by_parts=c.container == "gguf")
            h = blocks.attend(g, *qkv, heads, scale=heads.dim**-0.5, rotation=None, slopes=slopes)
            with g.stage("attention output"):
                h = blocks.linear(g, h, attention, "dense", hidden)
            x = blocks.residual(g, x, h, "attention residual")
            h = norm(g, x, layer, "post_attention_layernorm", stage="ffn norm")
            h = blocks.ffn(g, h, layer.at("mlp"), width=4 * hidden, activation="gelu_tanh", names=NAMES)
            x = blocks.residual(g, x, h, "ffn residual")
    blocks.head(g, x, w, norm=norm, embedding=embedding, norm_name="ln_f")
