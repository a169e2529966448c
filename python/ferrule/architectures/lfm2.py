"""LFM2: short gated convolutions with some attention between; in LFM2-MoE experts after the first layers."""

from __future__ import annotations

from ..graph import Graph, Value
from . import blocks
from .config import Config
from .weights import Weights

MODEL_TYPES = ("lfm2", "lfm2_moe")
ARCHITECTURES = ("Lfm2ForCausalLM", "Lfm2MoeForCausalLM")
IGNORED_TENSORS = ()
NAMES = ("w1", "w3", "w2")


def build(g: Graph, c: Config, w: Weights) -> None:
    """Records the forward pass."""
    hidden, heads, layers = c.integer("hidden_size"), blocks.Heads.read(c), c.integer("num_hidden_layers")
    norm, kernel = blocks.Norm(c.number("norm_eps", 1e-5)), c.integer("conv_L_cache", 3)
    c.ignore("conv_bias", "conv_dim", "conv_dim_out", "conv_use_xavier_init", "use_pos_enc", "block_dim")
    c.ignore("block_mlp_init_scale", "block_norm_eps", "block_out_init_scale", "block_use_xavier_init", "num_heads")
    c.ignore("tie_embedding", "theta")
    c.expect("block_use_swiglu", True)
    c.expect("scoring_func", "sigmoid")
    full = c.integers("full_attn_idxs", list(range(layers)))
    listed = ["full_attention" if i in full else "conv" for i in range(layers)]
    convolves = c.choices("layer_types", {"conv": True, "full_attention": False}, listed, count=layers)
    experts, dense = c.integer("num_experts", 0), c.integer("num_dense_layers", layers, least=0)
    width = ffn_width(c)

    rotation = blocks.rotation(g, c, w, head_dim=heads.dim, pairing="half", theta=1e6)
    embedding = w.matrix("model.embed_tokens.weight", c.integer("vocab_size"), hidden)
    x = g.embedding(embedding)
    for i, is_convolution in enumerate(convolves):
        layer = w.at(f"model.layers.{i}")
        ffn = layer.at("feed_forward")
        with g.layer(i):
            h = norm(g, x, layer, "operator_norm", stage="attention norm")
            if is_convolution:
                h = gated_convolution(g, h, layer.at("conv"), kernel=kernel)
            else:
                h = blocks.self_attention(
                    g,
                    h,
                    layer.at("self_attn"),
                    heads,
                    rotation=rotation,
                    qk_norm=norm,
                    norm_names=("q_layernorm", "k_layernorm"),
                    output="out_proj",
                )
            x = blocks.residual(g, x, h, "attention residual")
            h = norm(g, x, layer, "ffn_norm", stage="ffn norm")
            if i < dense:
                h = blocks.gated_ffn(g, h, ffn, width=width, activation="silu", names=NAMES)
            else:
                h = mixture(g, h, c, ffn, experts)
            x = blocks.residual(g, x, h, "ffn residual")
    blocks.head(g, x, w, norm=norm, embedding=embedding, norm_name="model.embedding_norm")


def ffn_width(c: Config) -> int:
    """Width of the FFN: as given, or two thirds of it, times a factor, rounded up."""
    width = c.integer("block_ff_dim", c.integer("intermediate_size", 0))
    multiplier, multiple = c.number("block_ffn_dim_multiplier", 1.0), c.integer("block_multiple_of", 256)
    if not c.flag("block_auto_adjust_ff_dim", False):
        return width
    return -(-int(multiplier * int(2 * width / 3)) // multiple) * multiple


def gated_convolution(g: Graph, x: Value, w: Weights, *, kernel: int) -> Value:
    """out(c * conv(b * x)), of b, c and x that one projection gives."""
    n = x.width
    with g.stage("conv in"):
        b, c, values = (blocks.linear(g, x, w, "in_proj", n, rows=range(i * n, (i + 1) * n)) for i in range(3))
    with g.stage("convolution"):
        mixed = g.gated_activation(b, values, "identity")
        mixed = blocks.convolution(g, mixed, w, "conv", kernel=kernel, activation="identity")
        mixed = g.gated_activation(c, mixed, "identity")
    with g.stage("conv out"):
        return blocks.linear(g, mixed, w, "out_proj", n)


def mixture(g: Graph, x: Value, c: Config, w: Weights, experts: int) -> Value:
    """Experts chosen by sigmoid and bias."""
    bias = w.vector("expert_bias", experts) if c.flag("use_expert_bias", True) else None
    routes = blocks.route(
        g,
        x,
        w,
        experts,
        k=c.integer("num_experts_per_tok"),
        scoring="sigmoid",
        normalize=c.flag("norm_topk_prob", True),
        norm_eps=1e-6,
        scale=c.number("routed_scaling_factor", 1.0),
        choice_bias=bias,
    )
    width = c.integer("moe_intermediate_size")
    return blocks.gated_experts(
        g, x, routes, w.at("experts"), experts=experts, width=width, activation="silu", names=NAMES
    )
