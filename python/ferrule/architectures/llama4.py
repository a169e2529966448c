"""Llama 4, text: attention in chunks, layers without rotation, one routed expert beside a shared one."""

from __future__ import annotations

from ..graph import Graph, Value
from . import blocks
from .config import Config
from .weights import Weights

MODEL_TYPES = ("llama4_text", "llama4")
ARCHITECTURES = ("Llama4ForCausalLM", "Llama4ForConditionalGeneration")
IGNORED_TENSORS = (r"rotary_emb\.inv_freq$", r"vision_model\.", r"multi_modal_projector\.")


def build(g: Graph, c: Config, w: Weights) -> None:
    """Records the forward pass."""
    hidden, heads, layers = c.integer("hidden_size"), blocks.Heads.read(c), c.integer("num_hidden_layers")
    activation = c.choice("hidden_act", blocks.ACTIVATIONS, "silu")
    norm, chunk = blocks.Norm(c.number("rms_norm_eps", 1e-5)), c.integer("attention_chunk_size", 0)
    c.ignore("attention_bias", "router_jitter_noise", "for_llm_compressor")
    c.ignore("intermediate_size_mlp")  # where all layers have experts
    period, step = c.integer("no_rope_layer_interval", 4), c.integer("interleave_moe_layer_step", 1)
    rotates = c.integers("no_rope_layers", [(i + 1) % period for i in range(layers)], count=layers)
    kinds = ["chunked_attention" if turns and chunk else "full_attention" for turns in rotates]
    c.expect("layer_types", kinds)
    sparse = c.integers("moe_layers", list(range(step - 1, layers, step)))

    rotation = blocks.rotation(g, c, w, head_dim=heads.dim, pairing="adjacent", theta=500000.0)
    embedding = w.matrix("model.embed_tokens.weight", c.integer("vocab_size"), hidden)
    x = g.embedding(embedding)
    for i, turns in enumerate(rotates):
        layer = w.at(f"model.layers.{i}")
        ffn = layer.at("feed_forward")
        with g.layer(i):
            h = norm(g, x, layer, "input_layernorm", stage="attention norm")
            h = attention(g, h, c, layer.at("self_attn"), heads, norm, rotation if turns else None, chunk)
            x = blocks.residual(g, x, h, "attention residual")
            h = norm(g, x, layer, "post_attention_layernorm", stage="ffn norm")
            if i in sparse:
                h = mixture(g, h, c, ffn, activation)
            else:
                width = c.integer("intermediate_size_mlp")
                h = blocks.gated_ffn(g, h, ffn, width=width, activation=activation)
            x = blocks.residual(g, x, h, "ffn residual")
    blocks.head(g, x, w, norm=norm, embedding=embedding)


def attention(
    g: Graph,
    x: Value,
    c: Config,
    w: Weights,
    heads: blocks.Heads,
    norm: blocks.Norm,
    rotation: blocks.Rotation | None,
    chunk: int,
) -> Value:
    """With rotation: within chunks, queries and keys normalised after it. Without: everywhere, queries sharpened."""
    q, k, v = blocks.project_qkv(g, x, w, heads)
    if rotation is not None:
        with g.stage("rope"):
            q, k = rotation(g, q, heads.dim), rotation(g, k, heads.dim)
        if c.flag("use_qk_norm", True):
            with g.stage("qk norm"):
                q, k = norm(g, q, w, None, groups=heads.q), norm(g, k, w, None, groups=heads.kv)
    elif c.flag("attn_temperature_tuning", True):
        beta, period = c.number("attn_scale", 0.1), c.number("floor_scale", 8192, above=0.0)
        q = g.scale_by_position(q, beta=beta, period=period, offset=1)
    scale = heads.dim**-0.5
    if rotation is not None and chunk:
        cache = g.cache(heads.kv, heads.dim, heads.dim, 0)
        with g.stage("kv append"):
            g.kv_append(cache, k, v)
        with g.stage("attention"):
            mixed = g.chunked_attention(q, cache, scale=scale, chunk=chunk)
    else:
        mixed = blocks.attend(g, q, k, v, heads, scale=scale, rotation=None)
    with g.stage("attention output"):
        return blocks.linear(g, mixed, w, "o_proj", x.width)


def mixture(g: Graph, x: Value, c: Config, w: Weights, activation: str) -> Value:
    """The chosen experts, whose input is weighted and not their output, and a shared one.

    Hugging Face holds their matrices transposed, gate and up together; GGUF does neither.
    """
    experts, width, hidden = c.integer("num_local_experts"), c.integer("intermediate_size"), x.width
    chosen = c.integer("num_experts_per_tok", 1)
    routes = blocks.route(g, x, w, experts, name="router", k=chosen, scoring="sigmoid")
    e = w.at("experts")
    if "gate_up_proj" in e:
        gate = e.experts("gate_up_proj", experts, width, hidden, rows=range(width), transposed=True)
        up = e.experts("gate_up_proj", experts, width, hidden, rows=range(width, 2 * width), transposed=True)
        down = e.experts("down_proj", experts, hidden, width, transposed=True)
    else:
        gate, up = (e.experts(name, experts, width, hidden) for name in ("gate_proj", "up_proj"))
        down = e.experts("down_proj", experts, hidden, width)
    with g.stage("experts gate, up"):
        gated, upped = (g.expert_linear(x, routes, part, weighted=True) for part in (gate, up))
    with g.stage("experts activation"):
        mixed = g.gated_activation(gated, upped, activation)
    with g.stage("experts down"):
        mixed = g.expert_linear(mixed, routes, down)
    with g.stage("experts sum"):
        mixed = g.expert_sum(mixed, routes, weighted=False)
    shared = blocks.gated_ffn(g, x, w.at("shared_expert"), width=width, activation=activation)
    return blocks.residual(g, mixed, shared, "expert sum")
