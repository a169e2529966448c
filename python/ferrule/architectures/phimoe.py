"""Phi-3.5-MoE: layer norms, biases, longrope, and two experts chosen one after the other (sparsemixer)."""

from __future__ import annotations

from ..graph import Graph
from . import blocks
from .config import Config
from .weights import Weights

MODEL_TYPES = ("phimoe",)
ARCHITECTURES = ("PhimoeForCausalLM", "PhiMoEForCausalLM")
IGNORED_TENSORS = (r"rotary_emb\.inv_freq$", r"^rope_factors_(long|short)\.weight$")


def build(g: Graph, c: Config, w: Weights) -> None:
    """Records the forward pass."""
    hidden, heads = c.integer("hidden_size"), blocks.Heads.read(c)
    experts, chosen = c.integer("num_local_experts"), c.integer("num_experts_per_tok")
    ffn, vocabulary = c.integer("intermediate_size"), c.integer("vocab_size")
    activation = c.choice("hidden_act", blocks.ACTIVATIONS, "silu")
    norm = blocks.Norm(c.number("rms_norm_eps", 1e-5), kind="layer")
    window, jitter = c.integer("sliding_window", 0), c.number("router_jitter_noise", 0.01)
    c.ignore("attention_bias", "lm_head_bias")  # the tensors say which there are
    c.ignore("input_jitter_noise")  # in training only

    rotation = blocks.rotation(g, with_short_factors(c), w, head_dim=heads.dim, pairing="half", theta=1e6)
    embedding = w.matrix("model.embed_tokens.weight", vocabulary, hidden)
    x = g.embedding(embedding)
    for i in range(c.integer("num_hidden_layers")):
        layer = w.at(f"model.layers.{i}")
        moe = layer.at("block_sparse_moe")
        with g.layer(i):
            h = norm(g, x, layer, "input_layernorm", stage="attention norm")
            h = blocks.self_attention(g, h, layer.at("self_attn"), heads, rotation=rotation, window=window)
            x = blocks.residual(g, x, h, "attention residual")
            h = norm(g, x, layer, "post_attention_layernorm", stage="ffn norm")
            routes = blocks.route(g, h, moe, experts, k=chosen, scoring="sparsemixer", jitter=jitter)
            h = blocks.gated_experts(
                g,
                h,
                routes,
                moe.at("experts"),
                experts=experts,
                width=ffn,
                activation=activation,
                names=("w1", "w3", "w2"),
            )
            x = blocks.residual(g, x, h, "ffn residual")
    blocks.head(g, x, w, norm=norm, embedding=embedding)


def with_short_factors(c: Config) -> Config:
    """The config as transformers applies it: in long sequences the scale of angles changes, not their frequencies."""
    key = "rope_parameters" if c.get("rope_parameters") else "rope_scaling"
    parameters = c.section(key, {})
    if parameters.get("short_factor") is None:
        return c
    return c.replaced(key, {**c[key], "long_factor": parameters["short_factor"]})
