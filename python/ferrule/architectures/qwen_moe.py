"""Qwen1.5-MoE, Qwen2-MoE, Qwen3-MoE and the vision model's text tower: experts in place of some layers' FFN."""

from __future__ import annotations

from ..graph import Graph, Value
from . import blocks
from .config import Config
from .qwen2 import layer_windows
from .weights import Weights

MODEL_TYPES = ("qwen2_moe", "qwen3_moe", "qwen3_vl_moe")
ARCHITECTURES = ("Qwen2MoeForCausalLM", "Qwen3MoeForCausalLM", "Qwen3VLMoeForConditionalGeneration")
IGNORED_TENSORS = (r"rotary_emb\.inv_freq$", r"^model\.visual\.")


def build(g: Graph, c: Config, w: Weights) -> None:
    """Records the forward pass."""
    hidden, heads, layers = c.integer("hidden_size"), blocks.Heads.read(c), c.integer("num_hidden_layers")
    vocabulary = c.integer("vocab_size")
    norm = blocks.Norm(c.number("rms_norm_eps", 1e-6))
    qk_norm = norm if "model.layers.0.self_attn.q_norm.weight" in w else None
    c.ignore("attention_bias", "qkv_bias")  # the tensors say which there are
    sparse = sparse_layers(c, layers)
    c.ignore("intermediate_size")  # where every layer has experts

    rotation = blocks.rotation(g, c, w, head_dim=heads.dim, pairing="half")
    embedding = w.matrix("model.embed_tokens.weight", vocabulary, hidden)
    x = g.embedding(embedding)
    for i, window in enumerate(layer_windows(c, layers)):
        layer = w.at(f"model.layers.{i}")
        with g.layer(i):
            h = norm(g, x, layer, "input_layernorm", stage="attention norm")
            h = blocks.self_attention(
                g, h, layer.at("self_attn"), heads, rotation=rotation, window=window, qk_norm=qk_norm
            )
            x = blocks.residual(g, x, h, "attention residual")
            h = norm(g, x, layer, "post_attention_layernorm", stage="ffn norm")
            h = mixture(g, h, c, layer.at("mlp")) if i in sparse else dense(g, h, c, layer.at("mlp"))
            x = blocks.residual(g, x, h, "ffn residual")
    blocks.head(g, x, w, norm=norm, embedding=embedding)


def sparse_layers(c: Config, layers: int) -> set[int]:
    """Layers with experts: every `decoder_sparse_step`-th one but those of `mlp_only_layers`."""
    step, dense_only = c.integer("decoder_sparse_step", 1), c.integers("mlp_only_layers", [])
    return {i for i in range(layers) if i not in dense_only and (i + 1) % step == 0}


def dense(g: Graph, x: Value, c: Config, w: Weights) -> Value:
    """The FFN of a layer without experts."""
    activation = c.choice("hidden_act", blocks.ACTIVATIONS, "silu")
    return blocks.gated_ffn(g, x, w, width=c.integer("intermediate_size"), activation=activation)


def mixture(g: Graph, x: Value, c: Config, w: Weights, *, normalize: bool = False) -> Value:
    """Experts by the softmax over all and, where there is one, a shared expert with a gate of its own.

    `normalize` is what an absent `norm_topk_prob` means.
    """
    experts = c.integer(c.present("num_experts", "num_local_experts"))
    activation = c.choice("hidden_act", blocks.ACTIVATIONS, "silu")
    routes = blocks.route(
        g,
        x,
        w,
        experts,
        k=c.integer("num_experts_per_tok"),
        scoring="softmax",
        normalize=c.flag("norm_topk_prob", normalize),
    )
    width = c.integer("moe_intermediate_size")
    mixed = blocks.gated_experts(g, x, routes, w.at("experts"), experts=experts, width=width, activation=activation)
    width = c.integer("shared_expert_intermediate_size", 0)
    if width == 0:
        return mixed
    shared = blocks.gated_ffn(g, x, w.at("shared_expert"), width=width, activation=activation)
    with g.stage("shared expert gate"):
        gate = g.activation(blocks.linear(g, x, w, "shared_expert_gate", 1), "sigmoid")
        return g.add(mixed, g.scale_groups(shared, gate))
