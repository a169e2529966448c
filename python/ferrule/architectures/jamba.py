"""Jamba: Mamba layers with one of attention in every period, experts in every other layer."""

from __future__ import annotations

from ..graph import Graph, Value
from . import blocks
from .config import Config
from .mamba import ignore_training
from .weights import Weights

MODEL_TYPES = ("jamba",)
ARCHITECTURES = ("JambaForCausalLM",)
IGNORED_TENSORS = ()


def build(g: Graph, c: Config, w: Weights) -> None:
    """Records the forward pass."""
    hidden, heads = c.integer("hidden_size"), blocks.Heads.read(c)
    ffn, experts = c.integer("intermediate_size"), c.integer("num_experts", 16, least=0)
    activation = c.choice("hidden_act", blocks.ACTIVATIONS, "silu")
    norm = blocks.Norm(c.number("rms_norm_eps", 1e-6))
    attention_period, attention_offset = c.integer("attn_layer_period", 8), c.integer("attn_layer_offset", 4, least=0)
    expert_period, expert_offset = c.integer("expert_layer_period", 2), c.integer("expert_layer_offset", 1, least=0)
    c.ignore("mamba_conv_bias", "mamba_proj_bias")  # the tensors say which there are
    c.ignore("num_logits_to_keep", "sliding_window", "layers_block_type", "layer_types")
    ignore_training(c)

    embedding = w.matrix("model.embed_tokens.weight", c.integer("vocab_size"), hidden)
    x = g.embedding(embedding)
    for i in range(c.integer("num_hidden_layers")):
        layer = w.at(f"model.layers.{i}")
        mlp = layer.at("feed_forward")
        with g.layer(i):
            h = norm(g, x, layer, "input_layernorm", stage="attention norm")
            if i % attention_period == attention_offset:
                h = blocks.self_attention(g, h, layer.at("self_attn"), heads, rotation=None)
            else:
                h = mamba(g, h, c, layer.at("mamba"), norm)
            x = blocks.residual(g, x, h, "attention residual")
            h = norm(g, x, layer, "pre_ff_layernorm", stage="ffn norm")
            if i % expert_period == expert_offset and experts > 1:
                chosen = c.integer("num_experts_per_tok", 2)
                routes = blocks.route(g, h, mlp, experts, name="router", k=chosen, scoring="softmax")
                h = blocks.gated_experts(
                    g, h, routes, mlp.at("experts"), experts=experts, width=ffn, activation=activation
                )
            else:
                h = blocks.gated_ffn(g, h, mlp, width=ffn, activation=activation)
            x = blocks.residual(g, x, h, "ffn residual")
    blocks.head(g, x, w, norm=norm, embedding=embedding, norm_name="model.final_layernorm")


def mamba(g: Graph, x: Value, c: Config, w: Weights, norm: blocks.Norm) -> Value:
    """The state space mixer, with norms on step sizes and inputs of the recurrence."""
    is_auto = c.get("mamba_dt_rank", "auto") == "auto"
    return blocks.mamba(
        g,
        x,
        w,
        inner=c.integer("mamba_expand", 2) * x.width,
        state=c.integer("mamba_d_state", 16),
        rank=-(-x.width // 16) if is_auto else c.integer("mamba_dt_rank"),
        kernel=c.integer("mamba_d_conv", 4),
        is_log=c.container != "gguf",
        norms=lambda part, name: norm(g, part, w, f"{name}_layernorm"),
    )
