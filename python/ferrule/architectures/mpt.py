"""MPT: linear position biases, norms without biases, optionally clipped queries, keys and values."""

from __future__ import annotations

from ..graph import Graph
from . import blocks
from .config import Config
from .weights import Weights

MODEL_TYPES = ("mpt",)
ARCHITECTURES = ("MptForCausalLM", "MPTForCausalLM")
IGNORED_TENSORS = ()


def build(g: Graph, c: Config, w: Weights) -> None:
    """Records the forward pass."""
    hidden, n_heads, vocabulary = c.integer("d_model"), c.integer("n_heads"), c.integer("vocab_size")
    heads = blocks.Heads.of(c, n_heads, n_heads, hidden // n_heads)
    norm = blocks.Norm(c.number("layer_norm_epsilon", 1e-5), kind="layer")
    attention_config = c.section("attn_config")
    attention_config.expect("alibi", True)
    attention_config.expect("qk_ln", False)
    attention_config.expect("prefix_lm", False)
    attention_config.expect("attn_type", "multihead_attention")
    limit, scale = attention_config.number("clip_qkv", 0.0), attention_config.number("softmax_scale", heads.dim**-0.5)
    largest = attention_config.number("alibi_bias_max", 8.0)
    attention_config.ignore("attn_impl", "attn_pdrop", "attn_uses_sequence_id")
    attention_config.refuse_unread()
    c.expect("logit_scale", None)
    c.expect("embedding_fraction", 1.0)
    c.ignore("emb_pdrop", "init_device", "learned_pos_emb", "max_seq_len", "no_bias", "verbose")
    c.choice("norm_type", {"layernorm": norm, "low_precision_layernorm": norm}, "layernorm")
    c.ignore("expansion_ratio")  # not read by the model's own code, which always takes four

    slopes = blocks.alibi_slopes(g, n_heads, largest=largest)
    w = w.at("transformer")
    embedding = w.matrix("wte.weight", vocabulary, hidden)
    x = g.embedding(embedding)
    for i in range(c.integer("n_layers")):
        layer = w.at(f"blocks.{i}")
        attention = layer.at("attn")
        with g.layer(i):
            h = norm(g, x, layer, "norm_1", stage="attention norm")
            qkv = blocks.fused_qkv(g, h, attention, "Wqkv", heads, by_parts=True)
            with g.stage("qkv clip"):
                q, k, v = (g.clamp(part, limit) for part in qkv)
            h = blocks.attend(g, q, k, v, heads, scale=scale, rotation=None, slopes=slopes)
            with g.stage("attention output"):
                h = blocks.linear(g, h, attention, "out_proj", hidden)
            x = blocks.residual(g, x, h, "attention residual")
            h = norm(g, x, layer, "norm_2", stage="ffn norm")
            h = blocks.ffn(g, h, layer.at("ffn"), width=4 * hidden, activation="gelu_erf")
            x = blocks.residual(g, x, h, "ffn residual")
    blocks.head(g, x, w, norm=norm, embedding=embedding, norm_name="norm_f")
