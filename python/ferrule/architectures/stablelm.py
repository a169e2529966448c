"""StableLM: layer norms, partial rotation, in larger models norms per head and attention beside the FFN."""

from __future__ import annotations

import numpy as np

from ..graph import Graph, Value
from . import blocks
from .config import Config
from .weights import Weights

MODEL_TYPES = ("stablelm", "stablelm_epoch")
ARCHITECTURES = ("StableLmForCausalLM", "StableLMEpochForCausalLM")
IGNORED_TENSORS = (r"rotary_emb\.inv_freq$",)


def build(g: Graph, c: Config, w: Weights) -> None:
    """Records the forward pass."""
    hidden, heads = c.integer("hidden_size"), blocks.Heads.read(c)
    ffn, vocabulary = c.integer("intermediate_size"), c.integer("vocab_size")
    activation = c.choice("hidden_act", blocks.ACTIVATIONS, "silu")
    eps = c.number("layer_norm_eps", c.number("norm_eps", 1e-5))
    norm, parallel = blocks.Norm(eps, kind="layer"), c.flag("use_parallel_residual", False)
    has_qk_norm = c.flag("qk_layernorm", False)
    c.ignore("use_qkv_bias")  # the tensors say

    partial = c.number("rope_pct", 0.25)
    rotation = blocks.rotation(g, c, w, head_dim=heads.dim, pairing="half", partial=partial)
    embedding = w.matrix("model.embed_tokens.weight", vocabulary, hidden)
    x = g.embedding(embedding)
    for i in range(c.integer("num_hidden_layers")):
        layer = w.at(f"model.layers.{i}")
        attention = layer.at("self_attn")
        with g.layer(i):
            h = norm(g, x, layer, "input_layernorm", stage="attention norm")
            q, k, v = blocks.project_qkv(g, h, attention, heads)
            if has_qk_norm:
                with g.stage("qk norm"):
                    q = head_norms(g, q, attention, "q_layernorm", heads.q, norm)
                    k = head_norms(g, k, attention, "k_layernorm", heads.kv, norm)
            mixed = blocks.attend(g, q, k, v, heads, scale=heads.dim**-0.5, rotation=rotation)
            with g.stage("attention output"):
                mixed = blocks.linear(g, mixed, attention, "o_proj", hidden)
            x = blocks.residual(g, x, mixed, "attention residual")
            if not parallel:
                h = norm(g, x, layer, "post_attention_layernorm", stage="ffn norm")
            h = blocks.gated_ffn(g, h, layer.at("mlp"), width=ffn, activation=activation)
            x = blocks.residual(g, x, h, "ffn residual")
    blocks.head(g, x, w, norm=norm, embedding=embedding)


def head_norms(g: Graph, x: Value, w: Weights, name: str, heads: int, norm: blocks.Norm) -> Value:
    """A norm with weights of its own for each head, stored apart; GGUF stores them together."""
    if f"{name}.weight" in w:
        return norm(g, x, w, name, groups=heads, shared=False)
    weights = [w.array(f"{name}.norms.{h}.weight", x.width // heads) for h in range(heads)]
    plain = norm(g, x, w, None, groups=heads)
    return g.scale_columns(plain, g.constant(name, np.concatenate(weights)))
