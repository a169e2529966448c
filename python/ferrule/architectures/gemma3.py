"""Gemma 3, text: four norms a layer, q/k norms, five windowed layers to one global, each with its own RoPE base."""

from __future__ import annotations

import math

from ..graph import Graph
from . import blocks
from .config import Config
from .weights import Weights

MODEL_TYPES = ("gemma3_text", "gemma3")
ARCHITECTURES = ("Gemma3ForCausalLM", "Gemma3ForConditionalGeneration")
IGNORED_TENSORS = (r"vision_tower\.", r"multi_modal_projector\.", r"embed_vision\.")


def build(g: Graph, c: Config, w: Weights) -> None:
    """Records the forward pass."""
    hidden, heads, head_dim = c.integer("hidden_size"), c.integer("num_attention_heads"), c.integer("head_dim", 256)
    kv_heads, layers = c.integer("num_key_value_heads", heads), c.integer("num_hidden_layers")
    ffn, vocabulary = c.integer("intermediate_size"), c.integer("vocab_size")
    activation = c.choice("hidden_activation", blocks.ACTIVATIONS, "gelu_pytorch_tanh")
    c.expect("attention_bias", False)
    c.expect("use_bidirectional_attention", False)
    # Hugging Face stores w where the norm multiplies by 1 + w; converters to GGUF store 1 + w.
    norm = blocks.Norm(c.number("rms_norm_eps", 1e-6), weight_offset=0.0 if c.container == "gguf" else 1.0)
    scale = c.number("query_pre_attn_scalar", head_dim) ** -0.5
    attention_softcap = c.number("attn_logit_softcapping", 0.0)

    period = c.integer("sliding_window_pattern", 6)
    types = c.get("layer_types") or [
        "sliding_attention" if (i + 1) % period else "full_attention" for i in range(layers)
    ]
    windows = blocks.windows(types, c.integer("sliding_window", 4096), layers, path=c.path)
    rotations = {
        "full_attention": blocks.rotation(
            g, c, w, head_dim=head_dim, pairing="half", layer_type="full_attention", theta=1e6
        ),
        "sliding_attention": blocks.rotation(
            g, local_rope(c), w, head_dim=head_dim, pairing="half", layer_type="sliding_attention"
        ),
    }
    embedding = w.matrix("model.embed_tokens.weight", vocabulary, hidden)
    x = g.embedding(embedding, scale=math.sqrt(hidden))
    for i, (layer_type, window) in enumerate(zip(types, windows, strict=True)):
        layer = w.at(f"model.layers.{i}")
        with g.layer(i):
            with g.stage("attention norm"):
                normed = norm(g, x, layer.vector("input_layernorm.weight", hidden))
            mixed = blocks.self_attention(
                g,
                normed,
                layer.at("self_attn"),
                heads=heads,
                kv_heads=kv_heads,
                head_dim=head_dim,
                scale=scale,
                rotation=rotations[layer_type],
                window=window,
                softcap=attention_softcap,
                qk_norm=norm,
            )
            with g.stage("attention post norm"):
                mixed = norm(g, mixed, layer.vector("post_attention_layernorm.weight", hidden))
            with g.stage("attention residual"):
                x = g.add(x, mixed)
            with g.stage("ffn norm"):
                normed = norm(g, x, layer.vector("pre_feedforward_layernorm.weight", hidden))
            mixed = blocks.gated_ffn(g, normed, layer.at("mlp"), width=ffn, activation=activation)
            with g.stage("ffn post norm"):
                mixed = norm(g, mixed, layer.vector("post_feedforward_layernorm.weight", hidden))
            with g.stage("ffn residual"):
                x = g.add(x, mixed)
    softcap = c.number("final_logit_softcapping", 0.0)
    blocks.head(g, x, w, norm=norm, embedding=embedding, softcap=softcap)


def local_rope(c: Config) -> Config:
    """The config as windowed layers see it: an old-form config gives them a base of their own and no scaling."""
    local = c.number("rope_local_base_freq", 10000.0)
    if c.get("rope_parameters") is not None:
        return c
    return Config({"rope_theta": local}, container=c.container, path=c.path)
