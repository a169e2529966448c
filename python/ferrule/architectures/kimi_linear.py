"""Kimi Linear: delta nets that decay each key dimension alone, latent attention without rotation, experts."""

from __future__ import annotations

from ..graph import Graph, Value
from . import blocks
from .config import Config
from .deepseek import dense, latent_attention, sparse_layers
from .weights import Weights

MODEL_TYPES = ("kimi_linear",)
ARCHITECTURES = ("KimiLinearForCausalLM",)
IGNORED_TENSORS = ()


def build(g: Graph, c: Config, w: Weights) -> None:
    """Records the forward pass."""
    hidden, layers = c.integer("hidden_size"), c.integer("num_hidden_layers")
    norm = blocks.Norm(c.number("rms_norm_eps", 1e-5))
    c.ignore("attention_bias", "num_key_value_heads", "head_dim", "qk_head_dim", "model_max_length")
    linear = c.choices("layer_types", {"linear_attention": True, "full_attention": False}, count=layers)

    embedding = w.matrix("model.embed_tokens.weight", c.integer("vocab_size"), hidden)
    x = g.embedding(embedding)
    for i, (is_linear, is_sparse) in enumerate(zip(linear, sparse_layers(c, layers), strict=True)):
        layer = w.at(f"model.layers.{i}")
        with g.layer(i):
            h = norm(g, x, layer, "input_layernorm", stage="attention norm")
            if is_linear:
                h = delta_net(g, h, c, layer.at("self_attn"), norm)
            else:
                h = latent_attention(g, h, c, layer.at("self_attn"), None)
            x = blocks.residual(g, x, h, "attention residual")
            h = norm(g, x, layer, "post_attention_layernorm", stage="ffn norm")
            # Some files have the FFN of dense layers under the name of the experts.
            mlp = layer.at("mlp" if "mlp.gate_proj.weight" in layer else "block_sparse_moe")
            h = mixture(g, h, c, mlp) if is_sparse else dense(g, h, c, mlp)
            x = blocks.residual(g, x, h, "ffn residual")
    blocks.head(g, x, w, norm=norm, embedding=embedding)


def delta_net(g: Graph, x: Value, c: Config, w: Weights, norm: blocks.Norm) -> Value:
    """The gated delta rule; decay and gate come from projections of low rank."""
    heads, dim = c.integer("linear_num_heads"), c.integer("linear_head_dim")
    kernel = c.integer("linear_conv_kernel_dim", 4)
    n = heads * dim

    def low_rank(name: str) -> Value:
        return blocks.linear(g, blocks.linear(g, x, w, f"{name}_a_proj", dim), w, f"{name}_b_proj", n)

    parts = []
    for name in "qkv":
        with g.stage("qkv"):
            part = blocks.linear(g, x, w, f"{name}_proj", n)
        with g.stage("convolution"):
            parts.append(blocks.convolution(g, part, w, f"{name}_conv1d", kernel=kernel))
    q, k, v = parts
    with g.stage("decay, gate"):
        step, beta, gate = low_rank("f"), blocks.linear(g, x, w, "b_proj", heads), low_rank("g")
    is_log = c.container != "gguf"
    mixed = blocks.delta_rule(g, q, k, v, beta, step, w, heads=heads, k_dim=dim, is_log=is_log)
    mixed = blocks.gated_norm(g, mixed, gate, w, "o_norm", norm=norm, heads=heads, activation="sigmoid")
    with g.stage("attention output"):
        return blocks.linear(g, mixed, w, "o_proj", x.width)


def mixture(g: Graph, x: Value, c: Config, w: Weights) -> Value:
    """Experts chosen by sigmoid and bias, and the shared ones, which are one wider FFN."""
    experts, width = c.integer("num_experts"), c.integer("moe_intermediate_size")
    activation = c.choice("hidden_act", blocks.ACTIVATIONS, "silu")
    c.expect("moe_router_activation_func", "sigmoid")
    routes = blocks.route(
        g,
        x,
        w,
        experts,
        k=c.integer("num_experts_per_token"),
        scoring="sigmoid",
        normalize=c.flag("moe_renormalize", True),
        norm_eps=1e-20,
        scale=c.number("routed_scaling_factor", 1.0),
        groups=c.integer("num_expert_group", 1),
        top_groups=c.integer("topk_group", 1),
        group_score="top2",
        choice_bias=w.vector("gate.e_score_correction_bias", experts),
    )
    mixed = blocks.gated_experts(
        g,
        x,
        routes,
        w.at("experts"),
        experts=experts,
        width=width,
        activation=activation,
        names=("w1", "w3", "w2"),
    )
    shared = c.integer("num_shared_experts", 0) * width
    h = blocks.gated_ffn(g, x, w.at("shared_experts"), width=shared, activation=activation)
    return blocks.residual(g, mixed, h, "expert sum")
