"""Qwen3-Next and Qwen3.5, dense and with experts: three layers of gated delta net to one of gated attention."""

from __future__ import annotations

import numpy as np

from ..graph import Graph, Value
from . import blocks
from .config import Config
from .qwen_moe import dense, mixture, sparse_layers
from .weights import Weights

MODEL_TYPES = ("qwen3_next", "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text")
ARCHITECTURES = (
    "Qwen3NextForCausalLM",
    "Qwen3_5ForCausalLM",
    "Qwen3_5ForConditionalGeneration",
    "Qwen3_5MoeForCausalLM",
    "Qwen3_5MoeForConditionalGeneration",
)
IGNORED_TENSORS = (r"^(model\.)?mtp\.", r"^model\.visual\.")


def build(g: Graph, c: Config, w: Weights) -> None:
    """Records the forward pass."""
    hidden, heads, layers = c.integer("hidden_size"), blocks.Heads.read(c), c.integer("num_hidden_layers")
    eps = c.number("rms_norm_eps", 1e-6)
    # Hugging Face stores w where the norm multiplies by 1 + w; converters to GGUF store 1 + w.
    norm = blocks.Norm(eps, weight_offset=0.0 if c.container == "gguf" else 1.0)
    c.ignore("attention_bias", "intermediate_size", "attn_output_gate", "mamba_ssm_dtype", "mlp_only_layers")
    c.ignore(*(key for key in c if "mtp" in key))
    interval = c.integer("full_attention_interval", 4)
    usual = ["linear_attention" if (i + 1) % interval else "full_attention" for i in range(layers)]
    linear = c.choices("layer_types", {"linear_attention": True, "full_attention": False}, usual, count=layers)
    sparse = sparse_layers(c, layers) if c.integer("moe_intermediate_size", 0) else set()

    rotation = blocks.rotation(g, c, w, head_dim=heads.dim, pairing="half", partial=0.25)
    embedding = w.matrix("model.embed_tokens.weight", c.integer("vocab_size"), hidden)
    x = g.embedding(embedding)
    for i, is_linear in enumerate(linear):
        layer = w.at(f"model.layers.{i}")
        mlp = layer.at("mlp")
        with g.layer(i):
            h = norm(g, x, layer, "input_layernorm", stage="attention norm")
            if is_linear:
                h = delta_net(g, h, c, layer.at("linear_attn"), blocks.Norm(eps))
            else:
                h = attention(g, h, layer.at("self_attn"), heads, norm, rotation)
            x = blocks.residual(g, x, h, "attention residual")
            h = norm(g, x, layer, "post_attention_layernorm", stage="ffn norm")
            h = mixture(g, h, c, mlp, normalize=True) if i in sparse else dense(g, h, c, mlp)
            x = blocks.residual(g, x, h, "ffn residual")
    blocks.head(g, x, w, norm=norm, embedding=embedding)


def attention(
    g: Graph, x: Value, w: Weights, heads: blocks.Heads, norm: blocks.Norm, rotation: blocks.Rotation
) -> Value:
    """Attention times the sigmoid of a gate, which q_proj gives for each head after its query."""
    n = heads.q * heads.dim
    query_rows, gate_rows = np.split(np.arange(2 * n).reshape(heads.q, 2 * heads.dim), 2, axis=1)
    with g.stage("qkv"):
        q = blocks.linear(g, x, w, "q_proj", n, rows=query_rows.reshape(-1))
        gate = blocks.linear(g, x, w, "q_proj", n, rows=gate_rows.reshape(-1))
        k = blocks.linear(g, x, w, "k_proj", heads.kv * heads.dim)
        v = blocks.linear(g, x, w, "v_proj", heads.kv * heads.dim)
    with g.stage("qk norm"):
        q, k = norm(g, q, w, "q_norm", groups=heads.q), norm(g, k, w, "k_norm", groups=heads.kv)
    mixed = blocks.attend(g, q, k, v, heads, scale=heads.dim**-0.5, rotation=rotation)
    with g.stage("attention gate"):
        mixed = g.gated_activation(gate, mixed, "sigmoid")
    with g.stage("attention output"):
        return blocks.linear(g, mixed, w, "o_proj", x.width)


def delta_net(g: Graph, x: Value, c: Config, w: Weights, norm: blocks.Norm) -> Value:
    """The gated delta rule over convolved queries, keys and values."""
    k_heads, heads = c.integer("linear_num_key_heads"), c.integer("linear_num_value_heads")
    k_dim, v_dim = c.integer("linear_key_head_dim"), c.integer("linear_value_head_dim")
    n_k, n_v, v_heads = k_heads * k_dim, heads * v_dim, blocks.whole(heads, k_heads, "value heads", path=w.path)
    with g.stage("qkv"):
        # One matrix may hold, for each key head, its query, key, values and gates; another betas and steps.
        if "in_proj_qkvz.weight" in w:
            by_head = np.arange(2 * n_k + 2 * n_v).reshape(k_heads, -1)
            parts = np.split(by_head, [k_dim, 2 * k_dim, 2 * k_dim + v_heads * v_dim], axis=1)
            *qkv_rows, gate_rows = (part.reshape(-1) for part in parts)
            qkv = blocks.linear(g, x, w, "in_proj_qkvz", 2 * n_k + n_v, rows=np.concatenate(qkv_rows))
            gate = blocks.linear(g, x, w, "in_proj_qkvz", n_v, rows=gate_rows)
        else:
            qkv = blocks.linear(g, x, w, "in_proj_qkv", 2 * n_k + n_v)
            gate = blocks.linear(g, x, w, "in_proj_z", n_v)
        if "in_proj_ba.weight" in w:
            beta_rows, step_rows = np.split(np.arange(2 * heads).reshape(k_heads, -1), 2, axis=1)
            beta = blocks.linear(g, x, w, "in_proj_ba", heads, rows=beta_rows.reshape(-1))
            step = blocks.linear(g, x, w, "in_proj_ba", heads, rows=step_rows.reshape(-1))
        else:
            beta, step = blocks.linear(g, x, w, "in_proj_b", heads), blocks.linear(g, x, w, "in_proj_a", heads)
    with g.stage("convolution"):
        qkv = blocks.convolution(g, qkv, w, "conv1d", kernel=c.integer("linear_conv_kernel_dim", 4))
        q, k, v = g.take_columns(qkv, 0, n_k), g.take_columns(qkv, n_k, n_k), g.take_columns(qkv, 2 * n_k, n_v)
    is_log = c.container != "gguf"
    # Converters to GGUF reorder the value heads of models with separate betas and steps.
    tiled = c.container == "gguf" and "in_proj_ba.weight" not in w
    mixed = blocks.delta_rule(g, q, k, v, beta, step, w, heads=heads, k_dim=k_dim, is_log=is_log, tiled=tiled)
    mixed = blocks.gated_norm(g, mixed, gate, w, "norm", norm=norm, heads=heads, activation="silu")
    with g.stage("attention output"):
        return blocks.linear(g, mixed, w, "out_proj", x.width)
