"""Granite 3 and 4: multipliers on embeddings, residuals, scores and logits; FFN, experts or both; Mamba 2 layers."""

from __future__ import annotations

from ..graph import Graph, Value
from . import blocks
from .config import Config
from .weights import Weights

MODEL_TYPES = ("granite", "granitemoe", "granitemoeshared", "granitemoehybrid")
ARCHITECTURES = (
    "GraniteForCausalLM",
    "GraniteMoeForCausalLM",
    "GraniteMoeSharedForCausalLM",
    "GraniteMoeHybridForCausalLM",
)
IGNORED_TENSORS = (r"rotary_emb\.inv_freq$",)
LAYER_TYPES = {
    "full_attention": "attention",
    "attention": "attention",
    "linear_attention": "mamba",
    "mamba": "mamba",
}


def build(g: Graph, c: Config, w: Weights) -> None:
    """Records the forward pass."""
    hidden, heads, layers = c.integer("hidden_size"), blocks.Heads.read(c), c.integer("num_hidden_layers")
    norm = blocks.Norm(c.number("rms_norm_eps", 1e-6))
    scale, factor = c.number("attention_multiplier", 1.0), c.number("residual_multiplier", 1.0)
    c.ignore("attention_bias", "mlp_bias", "mamba_conv_bias", "mamba_proj_bias")  # the tensors say which there are
    kinds = c.choices("layer_types", LAYER_TYPES, ["attention"] * layers, count=layers)
    c.ignore(*(key for key in c if key.startswith("mamba_")), "time_step_limit")  # where no layer is one

    # Converters to GGUF permute the rows of q and k of this family, so that pairs become neighbours.
    pairing = "adjacent" if c.container == "gguf" else "half"
    turns = c.choice("position_embedding_type", {"rope": True, "nope": False}, "rope")
    rotation = blocks.rotation(g, c, w, head_dim=heads.dim, pairing=pairing) if turns else None
    if not turns:
        c.ignore("rope_parameters", "rope_theta", "rope_scaling")
    embedding = w.matrix("model.embed_tokens.weight", c.integer("vocab_size"), hidden)
    x = g.embedding(embedding, scale=c.number("embedding_multiplier", 1.0))
    for i, kind in enumerate(kinds):
        layer = w.at(f"model.layers.{i}")
        with g.layer(i):
            h = norm(g, x, layer, "input_layernorm", stage="attention norm")
            if kind == "mamba":
                h = mamba2(g, h, c, layer.at("mamba"), norm)
            else:
                h = blocks.self_attention(g, h, layer.at("self_attn"), heads, scale=scale, rotation=rotation)
            x = blocks.residual(g, x, h, "attention residual", factor=factor)
            h = norm(g, x, layer, "post_attention_layernorm", stage="ffn norm")
            x = blocks.residual(g, x, feed_forward(g, h, c, layer), "ffn residual", factor=factor)
    blocks.head(g, x, w, norm=norm, embedding=embedding, scale=1 / c.number("logits_scaling", 1.0, above=0.0))


def feed_forward(g: Graph, x: Value, c: Config, w: Weights) -> Value:
    """A gated FFN, experts, a gated FFN of another name (`shared_mlp`), or the sum of the last two."""
    activation = c.choice("hidden_act", blocks.ACTIVATIONS, "silu")
    width, experts = c.integer("intermediate_size", 0), c.integer("num_local_experts", 0)
    shared_width = c.integer("shared_intermediate_size", 0)
    chosen = c.integer("num_experts_per_tok", 0)
    if not experts and not shared_width:
        return blocks.gated_ffn(g, x, w.at("mlp"), width=width, activation=activation)
    parts = []
    if experts:
        moe = w.at("block_sparse_moe")
        routes = blocks.route(g, x, moe, experts, name="router.layer", k=chosen, scoring="softmax", normalize=True)
        # Gate and up are one tensor, but for GGUF.
        if "input_linear.weight" in moe:
            gate = moe.experts("input_linear", experts, width, x.width, rows=range(width))
            up = moe.experts("input_linear", experts, width, x.width, rows=range(width, 2 * width))
            down = moe.experts("output_linear", experts, x.width, width)
            parts.append(blocks.mix_gated(g, x, routes, gate, up, down, activation))
        else:
            weights = moe.at("experts")
            parts.append(
                blocks.gated_experts(g, x, routes, weights, experts=experts, width=width, activation=activation)
            )
    if shared_width:
        mlp = w.at("shared_mlp")
        if "input_linear.weight" in mlp:
            names = ("input_linear", "output_linear")
            h = blocks.fused_gated_ffn(g, x, mlp, width=shared_width, activation=activation, names=names)
        else:
            h = blocks.gated_ffn(g, x, mlp, width=shared_width, activation=activation)
        parts.append(h)
    return parts[0] if len(parts) == 1 else blocks.residual(g, parts[0], parts[1], "expert sum")


def mamba2(g: Graph, x: Value, c: Config, w: Weights, norm: blocks.Norm) -> Value:
    """The state space mixer of a hybrid layer."""
    return blocks.mamba2(
        g,
        x,
        w,
        heads=c.integer("mamba_n_heads"),
        head_dim=c.integer("mamba_d_head"),
        groups=c.integer("mamba_n_groups"),
        state=c.integer("mamba_d_state"),
        kernel=c.integer("mamba_d_conv"),
        dt_limits=c.limits("time_step_limit", (0.0, float("inf"))),
        is_log=c.container != "gguf",
        norm=norm,
    )
