"""Nemotron-H and Nemotron 3: one mixer a layer, of four kinds: Mamba 2, attention, FFN, experts."""

from __future__ import annotations

from ..graph import Graph, Value
from . import blocks
from .config import Config
from .mamba import ignore_training
from .weights import Weights

MODEL_TYPES = ("nemotron_h",)
ARCHITECTURES = ("NemotronHForCausalLM",)
IGNORED_TENSORS = (r"^mtp\.",)
KINDS = {
    "M": "mamba",
    "mamba": "mamba",
    "linear_attention": "mamba",
    "*": "attention",
    "attention": "attention",
    "full_attention": "attention",
    "-": "mlp",
    "mlp": "mlp",
    "E": "moe",
    "moe": "moe",
}


def build(g: Graph, c: Config, w: Weights) -> None:
    """Records the forward pass."""
    hidden, heads = c.integer("hidden_size"), blocks.Heads.read(c)
    norm = blocks.Norm(c.number("layer_norm_epsilon", c.number("norm_eps", 1e-5)))
    activation = c.choice("mlp_hidden_act", blocks.ACTIVATIONS, "relu2")
    kinds = layer_kinds(c)
    c.expect("sliding_window", None)
    c.expect("moe_latent_size", None)
    c.expect("mamba_hidden_act", "silu")
    c.ignore("attention_bias", "mlp_bias", "use_bias", "use_conv_bias", "mamba_proj_bias")  # the tensors say
    c.ignore("mtp_layers_block_type", "mtp_hybrid_override_pattern", "num_nextn_predict_layers", "num_hidden_layers")
    c.ignore("mamba_ssm_cache_dtype", "moe_shared_expert_overlap", "num_logits_to_keep", "rope_theta")
    c.ignore("moe_intermediate_size", "moe_shared_expert_intermediate_size", "intermediate_size")  # of absent kinds
    c.ignore("n_group", "topk_group", "n_routed_experts", "n_shared_experts", "norm_topk_prob")
    c.ignore("num_experts_per_tok", "routed_scaling_factor")
    ignore_training(c)

    embedding = w.matrix("backbone.embeddings.weight", c.integer("vocab_size"), hidden)
    x = g.embedding(embedding)
    for i, kind in enumerate(kinds):
        layer = w.at(f"backbone.layers.{i}")
        mixer = layer.at("mixer")
        with g.layer(i):
            h = norm(g, x, layer, "norm", stage=f"{kind} norm")
            if kind == "mamba":
                h = state_space(g, h, c, mixer, norm)
            elif kind == "attention":
                h = blocks.self_attention(g, h, mixer, heads, rotation=None)
            elif kind == "mlp":
                h = blocks.ffn(g, h, mixer, width=c.integer("intermediate_size"), activation=activation)
            else:
                h = mixture(g, h, c, mixer, activation)
            x = blocks.residual(g, x, h, f"{kind} residual")
    blocks.head(g, x, w, norm=norm, embedding=embedding, norm_name="backbone.norm_f")


def layer_kinds(c: Config) -> list[str]:
    """Kind of each layer, from a list of names or a string of signs."""
    return c.choices("layers_block_type", KINDS, list(str(c.get("hybrid_override_pattern", ""))))


def state_space(g: Graph, x: Value, c: Config, w: Weights, norm: blocks.Norm) -> Value:
    """The Mamba 2 mixer."""
    return blocks.mamba2(
        g,
        x,
        w,
        heads=c.integer("mamba_num_heads"),
        head_dim=c.integer("mamba_head_dim"),
        groups=c.integer("n_groups"),
        state=c.integer("ssm_state_size"),
        kernel=c.integer("conv_kernel", 4),
        dt_limits=c.limits("time_step_limit", (0.0, float("inf"))),
        is_log=c.container != "gguf",
        norm=norm,
    )


def mixture(g: Graph, x: Value, c: Config, w: Weights, activation: str) -> Value:
    """Routed experts without gates, and the shared ones, which are one wider FFN."""
    experts = c.integer("n_routed_experts")
    routes = blocks.route(
        g,
        x,
        w,
        experts,
        k=c.integer("num_experts_per_tok"),
        scoring="sigmoid",
        normalize=c.flag("norm_topk_prob", True),
        norm_eps=1e-20,
        scale=c.number("routed_scaling_factor", 1.0),
        groups=c.integer("n_group", 1),
        top_groups=c.integer("topk_group", 1),
        group_score="top2",
        choice_bias=w.vector("gate.e_score_correction_bias", experts),
    )
    width, shared = c.integer("moe_intermediate_size"), c.integer("moe_shared_expert_intermediate_size")
    mixed = blocks.plain_experts(g, x, routes, w.at("experts"), experts=experts, width=width, activation=activation)
    h = blocks.ffn(g, x, w.at("shared_experts"), width=shared, activation=activation)
    return blocks.residual(g, mixed, h, "expert sum")
