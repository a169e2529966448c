"""Falcon-H1: Mamba 2 and attention side by side in every layer, multipliers throughout."""

from __future__ import annotations

from ..graph import Graph, Value
from . import blocks
from .config import Config
from .mamba import ignore_training
from .weights import Weights

MODEL_TYPES = ("falcon_h1",)
ARCHITECTURES = ("FalconH1ForCausalLM",)
IGNORED_TENSORS = ()


def build(g: Graph, c: Config, w: Weights) -> None:
    """Records the forward pass."""
    hidden, heads = c.integer("hidden_size"), blocks.Heads.read(c)
    activation = c.choice("hidden_act", blocks.ACTIVATIONS, "silu")
    norm = blocks.Norm(c.number("rms_norm_eps", 1e-5))
    attention_out, ssm_out = c.number("attention_out_multiplier", 1.0), c.number("ssm_out_multiplier", 1.0)
    c.expect("mamba_rms_norm", False)
    c.ignore("attention_bias", "mlp_bias", "projectors_bias", "mamba_conv_bias", "mamba_proj_bias", "mamba_use_mlp")
    c.ignore(
        "mamba_d_head", "mamba_norm_before_gate", "num_logits_to_keep", "attn_layer_indices", "mlp_expansion_factor"
    )
    ignore_training(c)

    rotation = blocks.rotation(g, c, w, head_dim=heads.dim, pairing="half", theta=100000.0)
    embedding = w.matrix("model.embed_tokens.weight", c.integer("vocab_size"), hidden)
    x = g.embedding(embedding, scale=c.number("embedding_multiplier", 1.0))
    for i in range(c.integer("num_hidden_layers")):
        layer = w.at(f"model.layers.{i}")
        with g.layer(i):
            h = norm(g, x, layer, "input_layernorm", stage="attention norm")
            mixed = state_space(g, h, c, layer.at("mamba"))
            attended = attention(g, h, c, layer.at("self_attn"), heads, rotation)
            x = blocks.residual(g, x, mixed, "ssm residual", factor=ssm_out)
            x = blocks.residual(g, x, attended, "attention residual", factor=attention_out)
            h = norm(g, x, layer, "pre_ff_layernorm", stage="ffn norm")
            x = blocks.residual(g, x, feed_forward(g, h, c, layer.at("feed_forward"), activation), "ffn residual")
    scale = c.number("lm_head_multiplier", 1.0)
    blocks.head(g, x, w, norm=norm, embedding=embedding, norm_name="model.final_layernorm", scale=scale)


def attention(g: Graph, x: Value, c: Config, w: Weights, heads: blocks.Heads, rotation: blocks.Rotation) -> Value:
    """Attention whose keys are scaled."""
    x = g.scale(x, c.number("attention_in_multiplier", 1.0))
    q, k, v = blocks.project_qkv(g, x, w, heads)
    k = g.scale(k, c.number("key_multiplier", 1.0))
    mixed = blocks.attend(g, q, k, v, heads, scale=heads.dim**-0.5, rotation=rotation)
    with g.stage("attention output"):
        return blocks.linear(g, mixed, w, "o_proj", x.width)


def state_space(g: Graph, x: Value, c: Config, w: Weights) -> Value:
    """The Mamba 2 mixer; each part of what its projection gives has a multiplier."""
    heads = c.integer("mamba_n_heads")
    gate_by, x_by, b_by, c_by, dt_by = c.numbers("ssm_multipliers", [1.0] * 5, count=5)
    inner = c.integer("mamba_d_ssm", c.integer("mamba_expand", 2) * x.width)
    return blocks.mamba2(
        g,
        g.scale(x, c.number("ssm_in_multiplier", 1.0)),
        w,
        heads=heads,
        head_dim=inner // heads,
        groups=c.integer("mamba_n_groups", 1),
        state=c.integer("mamba_d_state"),
        kernel=c.integer("mamba_d_conv", 4),
        dt_limits=c.limits("time_step_limit", (0.0, float("inf"))),
        is_log=c.container != "gguf",
        norm=None,
        multipliers=(gate_by, x_by, b_by, c_by, dt_by),
    )


def feed_forward(g: Graph, x: Value, c: Config, w: Weights, activation: str) -> Value:
    """A gated FFN whose gate, before its activation, and result are scaled."""
    width = c.integer("intermediate_size")
    gate_by, down_by = c.numbers("mlp_multipliers", [1.0, 1.0], count=2)
    with g.stage("ffn gate, up"):
        gate = g.scale(blocks.linear(g, x, w, "gate_proj", width), gate_by)
        up = blocks.linear(g, x, w, "up_proj", width)
    with g.stage("ffn activation"):
        mixed = g.gated_activation(gate, up, activation)
    with g.stage("ffn down"):
        return g.scale(blocks.linear(g, mixed, w, "down_proj", x.width), down_by)
