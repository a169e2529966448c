"""GPT-OSS: attention sinks, every other layer windowed, clamped experts with biases, stored in MXFP4."""

from __future__ import annotations

import numpy as np

from ..graph import Graph, Value
from . import blocks
from .config import Config
from .weights import Weights

MODEL_TYPES = ("gpt_oss",)
ARCHITECTURES = ("GptOssForCausalLM",)
IGNORED_TENSORS = ()


def build(g: Graph, c: Config, w: Weights) -> None:
    """Records the forward pass."""
    hidden, heads, layers = c.integer("hidden_size"), blocks.Heads.read(c), c.integer("num_hidden_layers")
    norm = blocks.Norm(c.number("rms_norm_eps", 1e-5))
    c.expect("hidden_act", "silu")
    c.ignore("attention_bias")  # the tensors say
    types = blocks.layer_types(c, ["full_attention" if i % 2 else "sliding_attention" for i in range(layers)])
    windows = blocks.windows(types, c.integer("sliding_window", 128))
    if c.get("quantization_config") is not None:
        c.section("quantization_config").expect("quant_method", "mxfp4")

    rotation = blocks.rotation(g, c, w, head_dim=heads.dim, pairing="half", theta=150000.0)
    embedding = w.matrix("model.embed_tokens.weight", c.integer("vocab_size"), hidden)
    x = g.embedding(embedding)
    for i, window in enumerate(windows):
        layer = w.at(f"model.layers.{i}")
        attention = layer.at("self_attn")
        with g.layer(i):
            h = norm(g, x, layer, "input_layernorm", stage="attention norm")
            qkv = blocks.project_qkv(g, h, attention, heads)
            sinks = attention.vector("sinks", heads.q)
            scale = heads.dim**-0.5
            h = blocks.attend(g, *qkv, heads, scale=scale, rotation=rotation, window=window, sinks=sinks)
            with g.stage("attention output"):
                h = blocks.linear(g, h, attention, "o_proj", hidden)
            x = blocks.residual(g, x, h, "attention residual")
            h = norm(g, x, layer, "post_attention_layernorm", stage="ffn norm")
            x = blocks.residual(g, x, mixture(g, h, c, layer.at("mlp")), "ffn residual")
    blocks.head(g, x, w, norm=norm, embedding=embedding)


def mixture(g: Graph, x: Value, c: Config, w: Weights) -> Value:
    """Experts of gate and up in alternate rows, with biases.

    Float files hold transposed matrices, MXFP4 ones do not. GGUF holds gate and up apart.
    """
    hidden, width = x.width, c.integer("intermediate_size")
    count, chosen = c.integer("num_local_experts"), c.integer("num_experts_per_tok")
    routes = blocks.route(g, x, w, count, name="router", k=chosen, scoring="softmax", normalize=True)
    e = w.at("experts")
    if "gate_proj.weight" in e:
        gate, up = e.experts("gate_proj", count, width, hidden), e.experts("up_proj", count, width, hidden)
        down = e.experts("down_proj", count, hidden, width)
        gate_bias, up_bias = e.array("gate_proj.bias", count, width), e.array("up_proj.bias", count, width)
        down_bias = e.array("down_proj.bias", count, hidden)
    else:
        turned, odd = "gate_up_proj_blocks" not in e, np.arange(1, 2 * width, 2)
        gate = e.experts("gate_up_proj", count, width, hidden, rows=odd - 1, transposed=turned)
        up = e.experts("gate_up_proj", count, width, hidden, rows=odd, transposed=turned)
        down = e.experts("down_proj", count, hidden, width, transposed=turned)
        biases = e.array("gate_up_proj_bias", count, width, 2)
        gate_bias, up_bias, down_bias = biases[..., 0], biases[..., 1], e.array("down_proj_bias", count, hidden)
    with g.stage("experts gate, up"):
        gated = g.expert_linear(x, routes, gate, g.constant("gate bias", gate_bias))
        upped = g.expert_linear(x, routes, up, g.constant("up bias", up_bias))
    with g.stage("experts activation"):
        limit, alpha = c.number("swiglu_limit", 7.0), c.number("swiglu_alpha", 1.702)
        mixed = g.clamped_swiglu(gated, upped, alpha=alpha, limit=limit)
    with g.stage("experts down"):
        parts = g.expert_linear(mixed, routes, down, g.constant("down bias", down_bias))
    with g.stage("experts sum"):
        return g.expert_sum(parts, routes)
