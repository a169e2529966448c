"""Hunyuan dense: queries and keys are normalised after the rotation."""

from __future__ import annotations

from ..graph import Graph
from . import blocks
from .config import Config
from .weights import Weights

MODEL_TYPES = ("hunyuan_v1_dense",)
ARCHITECTURES = ("HunYuanDenseV1ForCausalLM",)
IGNORED_TENSORS = (r"rotary_emb\.inv_freq$",)


def build(g: Graph, c: Config, w: Weights) -> None:
    """Records the forward pass."""
    hidden, heads = c.integer("hidden_size"), blocks.Heads.read(c)
    ffn, vocabulary = c.integer("intermediate_size"), c.integer("vocab_size")
    activation = c.choice("hidden_act", blocks.ACTIVATIONS, "silu")
    norm = blocks.Norm(c.number("rms_norm_eps", 1e-5))
    c.ignore("attention_bias", "eod_token_id")

    # Configs of the rule "dynamic" hold numbers of other rules beside the one that counts, `alpha`.
    others = ("factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim")
    rotation = blocks.rotation(g, c, w, head_dim=heads.dim, pairing="half", applied=others)
    embedding = w.matrix("model.embed_tokens.weight", vocabulary, hidden)
    x = g.embedding(embedding)
    for i in range(c.integer("num_hidden_layers")):
        layer = w.at(f"model.layers.{i}")
        attention = layer.at("self_attn")
        with g.layer(i):
            h = norm(g, x, layer, "input_layernorm", stage="attention norm")
            q, k, v = blocks.project_qkv(g, h, attention, heads)
            with g.stage("rope"):
                q, k = rotation(g, q, heads.dim), rotation(g, k, heads.dim)
            with g.stage("qk norm"):
                q = norm(g, q, attention, "query_layernorm", groups=heads.q)
                k = norm(g, k, attention, "key_layernorm", groups=heads.kv)
            h = blocks.attend(g, q, k, v, heads, scale=heads.dim**-0.5, rotation=None)
            with g.stage("attention output"):
                h = blocks.linear(g, h, attention, "o_proj", hidden)
            x = blocks.residual(g, x, h, "attention residual")
            h = norm(g, x, layer, "post_attention_layernorm", stage="ffn norm")
            h = blocks.gated_ffn(g, h, layer.at("mlp"), width=ffn, activation=activation)
            x = blocks.residual(g, x, h, "ffn residual")
    blocks.head(g, x, w, norm=norm, embedding=embedding)
