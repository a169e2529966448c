"""Gemma 4, text: dense, experts beside a dense FFN, and the small models' per-layer embeddings and shared caches."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ..errors import CorruptFile
from ..graph import CacheLayer, Graph, Value
from . import blocks
from .config import Config
from .weights import Weights

MODEL_TYPES = ("gemma4_text", "gemma4", "gemma4_unified", "gemma4_unified_text")
ARCHITECTURES = (
    "Gemma4ForCausalLM",
    "Gemma4ForConditionalGeneration",
    "Gemma4UnifiedForConditionalGeneration",
)
IGNORED_TENSORS = (r"(vision|audio)_tower\.", r"embed_(vision|audio)\.", r"vision_embedder\.")


def build(g: Graph, c: Config, w: Weights) -> None:
    """Records the forward pass."""
    hidden, layers = c.integer("hidden_size"), c.integer("num_hidden_layers")
    norm = blocks.Norm(c.number("rms_norm_eps", 1e-6))
    activation = c.choice("hidden_activation", blocks.ACTIVATIONS, "gelu_pytorch_tanh")
    c.expect("attention_bias", False)
    if c.get("use_bidirectional_attention") != "vision":  # images only, and there are none in text
        c.expect("use_bidirectional_attention", None)
    usual = ["full_attention" if (i + 1) % 6 == 0 or i == layers - 1 else "sliding_attention" for i in range(layers)]
    types = blocks.layer_types(c, usual)
    windows = blocks.windows(types, c.integer("sliding_window", 512))
    heads = [layer_heads(c, i, kind) for i, kind in enumerate(types)]
    rotations = {kind: layer_rotation(g, c, w, heads[types.index(kind)].dim, kind) for kind in sorted(set(types))}
    first_shared = layers - c.integer("num_kv_shared_layers", 0)
    wide, ffn = c.flag("use_double_wide_mlp", False), c.integer("intermediate_size")
    has_experts = c.flag("enable_moe_block", False)
    c.ignore("num_experts", "top_k_experts", "moe_intermediate_size")  # where there are none

    embedding = w.matrix("model.embed_tokens.weight", c.integer("vocab_size"), hidden)
    x = g.embedding(embedding, scale=math.sqrt(hidden))
    small, per_layer = c.integer("hidden_size_per_layer_input", 0), None
    vocabulary = c.integer("vocab_size_per_layer_input", 0)
    if small:
        per_layer = blocks.per_layer_inputs(
            g, x, w.at("model"), layers=layers, width=small, vocabulary=vocabulary, norm=norm
        )
    caches: dict[str, CacheLayer] = {}
    for i, kind in enumerate(types):
        layer, shared = w.at(f"model.layers.{i}"), i >= first_shared
        with g.layer(i):
            h = norm(g, x, layer, "input_layernorm", stage="attention norm")
            cache = shared_cache(c, caches, kind) if shared else None
            h, caches[kind] = attention(g, h, layer.at("self_attn"), heads[i], norm, rotations[kind], windows[i], cache)
            h = norm(g, h, layer, "post_attention_layernorm", stage="attention post norm")
            x = blocks.residual(g, x, h, "attention residual")
            width = 2 * ffn if wide and shared else ffn
            h = feed_forward(g, x, c, layer, norm, activation, width=width, has_experts=has_experts)
            x = blocks.residual(g, x, h, "ffn residual")
            if per_layer is not None:
                h = blocks.per_layer_update(
                    g, x, per_layer, layer, layer=i, width=small, activation=activation, norm=norm
                )
                x = blocks.residual(g, x, h, "per-layer residual")
            with g.stage("layer scalar"):
                x = g.scale(x, layer.scalar("layer_scalar"))
    softcap = c.number("final_logit_softcapping", 0.0)
    blocks.head(g, x, w, norm=norm, embedding=embedding, softcap=softcap)


def layer_rotation(g: Graph, c: Config, w: Weights, head_dim: int, kind: str) -> blocks.Rotation:
    """The rotation of a kind of layer: GGUF's divisors of frequencies are for global ones."""
    is_global = kind == "full_attention"
    return blocks.rotation(g, c, w, head_dim=head_dim, pairing="half", layer_type=kind, divided=is_global)


def layer_heads(c: Config, i: int, kind: str) -> blocks.Heads:
    """Heads of layer i: global layers may have wider ones and, if keys are values too, fewer key/value heads."""
    heads = blocks.Heads.read(c)
    dim, kv = c.integer("global_head_dim", heads.dim), c.integer("num_global_key_value_heads", heads.kv)
    kv = kv if c.flag("attention_k_eq_v", False) else heads.kv
    if c.get("per_layer_config") is not None:
        own = c.section("per_layer_config").section(str(i), {})
        dim, kv = own.integer("head_dim", heads.dim), own.integer("num_key_value_heads", heads.kv)
        own.refuse_unread()
    elif kind == "sliding_attention":
        return heads
    return blocks.Heads.of(c, heads.q, kv, dim)


def shared_cache(c: Config, caches: Mapping[str, CacheLayer], kind: str) -> CacheLayer:
    """The cache layer that a layer without one of its own reads: the last of its kind."""
    if kind not in caches:
        raise CorruptFile(
            "config key 'num_kv_shared_layers'",
            path=c.path,
            expected=f"fewer, so that a layer of kind {kind} has keys and values of its own",
            found=repr(c.get("num_kv_shared_layers")),
        )
    return caches[kind]


def attention(
    g: Graph,
    x: Value,
    w: Weights,
    heads: blocks.Heads,
    norm: blocks.Norm,
    rotation: blocks.Rotation,
    window: int,
    cache: CacheLayer | None,
) -> tuple[Value, CacheLayer]:
    """Attention over a new cache layer or an earlier layer's; values are keys where there is no v_proj."""
    with g.stage("qkv"):
        q = blocks.linear(g, x, w, "q_proj", heads.q * heads.dim)
    with g.stage("qk norm"):
        q = norm(g, q, w, "q_norm", groups=heads.q)
    with g.stage("rope"):
        q = rotation(g, q, heads.dim)
    if cache is not None:
        w.ignore("k_proj", "v_proj", "k_norm")
    else:
        with g.stage("qkv"):
            k = v = blocks.linear(g, x, w, "k_proj", heads.kv * heads.dim)
            if "v_proj.weight" in w:
                v = blocks.linear(g, x, w, "v_proj", heads.kv * heads.dim)
        with g.stage("qk norm"):
            k = norm(g, k, w, "k_norm", groups=heads.kv)
            v = norm(g, v, w, None, groups=heads.kv)
        with g.stage("rope"):
            k = rotation(g, k, heads.dim)
        cache = g.cache(heads.kv, heads.dim, heads.dim, window)
        with g.stage("kv append"):
            g.kv_append(cache, k, v)
    with g.stage("attention"):
        mixed = g.attention(q, cache, scale=1.0, window=window)
    with g.stage("attention output"):
        return blocks.linear(g, mixed, w, "o_proj", x.width), cache


def feed_forward(
    g: Graph,
    x: Value,
    c: Config,
    w: Weights,
    norm: blocks.Norm,
    activation: str,
    *,
    width: int,
    has_experts: bool,
) -> Value:
    """The dense FFN and, beside it, experts whose router sees the residual stream itself."""
    h = norm(g, x, w, "pre_feedforward_layernorm", stage="ffn norm")
    h = blocks.gated_ffn(g, h, w.at("mlp"), width=width, activation=activation)
    if has_experts:
        experts, expert_width = c.integer("num_experts"), c.integer("moe_intermediate_size")
        h = norm(g, h, w, "post_feedforward_layernorm_1", stage="ffn post norm")
        router = w.at("router")
        with g.stage("router"):
            scale = g.constant("router scale", router.array("scale", x.width) * x.width**-0.5)
            scaled = g.rms_norm(x, scale, norm.eps)
        routes = blocks.route(
            g,
            scaled,
            router,
            experts,
            name="proj",
            k=c.integer("top_k_experts"),
            scoring="softmax",
            normalize=True,
            expert_scale=router.vector("per_expert_scale", experts),
        )
        e = norm(g, x, w, "pre_feedforward_layernorm_2", stage="experts norm")
        e = blocks.gated_experts(
            g, e, routes, w.at("experts"), experts=experts, width=expert_width, activation=activation
        )
        e = norm(g, e, w, "post_feedforward_layernorm_2", stage="experts post norm")
        h = blocks.residual(g, h, e, "expert sum")
    return norm(g, h, w, "post_feedforward_layernorm", stage="ffn post norm")
