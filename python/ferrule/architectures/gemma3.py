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
    build_gemma(g, c, w, sandwich=True, qk_norm=True, period=6)


def build_gemma(g: Graph, c: Config, w: Weights, *, sandwich: bool, qk_norm: bool, period: int) -> None:
    """Gemma 1 to 3. `sandwich`: norms after attention and FFN too; every `period`-th layer sees everything."""
    hidden, heads, layers = c.integer("hidden_size"), blocks.Heads.read(c), c.integer("num_hidden_layers")
    ffn, vocabulary = c.integer("intermediate_size"), c.integer("vocab_size")
    # Gemma 1 files name an exact GELU under `hidden_act` and mean the approximation, as their authors stated.
    activation = c.choice("hidden_activation", blocks.ACTIVATIONS, "gelu_pytorch_tanh")
    c.choice("hidden_act", {"gelu": activation, "gelu_pytorch_tanh": activation}, "gelu")
    c.expect("attention_bias", False)
    c.expect("use_bidirectional_attention", False)
    # Hugging Face stores w where the norm multiplies by 1 + w; converters to GGUF store 1 + w.
    norm = blocks.Norm(c.number("rms_norm_eps", 1e-6), weight_offset=0.0 if c.container == "gguf" else 1.0)
    scale = c.number("query_pre_attn_scalar", heads.dim, above=0.0) ** -0.5
    attention_softcap = c.number("attn_logit_softcapping", 0.0)
    types = layer_types(c, layers, period=period)
    windows = blocks.windows(types, c.integer("sliding_window", 4096))
    rotations = {kind: layer_rotation(g, c, w, heads.dim, kind, two_bases=qk_norm) for kind in sorted(set(types))}

    embedding = w.matrix("model.embed_tokens.weight", vocabulary, hidden)
    x = g.embedding(embedding, scale=math.sqrt(hidden))
    for i, (kind, window) in enumerate(zip(types, windows, strict=True)):
        layer = w.at(f"model.layers.{i}")
        with g.layer(i):
            h = norm(g, x, layer, "input_layernorm", stage="attention norm")
            h = blocks.self_attention(
                g,
                h,
                layer.at("self_attn"),
                heads,
                scale=scale,
                rotation=rotations[kind],
                window=window,
                softcap=attention_softcap,
                qk_norm=norm if qk_norm else None,
            )
            if sandwich:
                h = norm(g, h, layer, "post_attention_layernorm", stage="attention post norm")
            x = blocks.residual(g, x, h, "attention residual")
            before = "pre_feedforward_layernorm" if sandwich else "post_attention_layernorm"
            h = norm(g, x, layer, before, stage="ffn norm")
            h = blocks.gated_ffn(g, h, layer.at("mlp"), width=ffn, activation=activation)
            if sandwich:
                h = norm(g, h, layer, "post_feedforward_layernorm", stage="ffn post norm")
            x = blocks.residual(g, x, h, "ffn residual")
    softcap = c.number("final_logit_softcapping", 0.0)
    blocks.head(g, x, w, norm=norm, embedding=embedding, softcap=softcap)


def layer_types(c: Config, layers: int, *, period: int) -> list[str]:
    """Kind of each layer; in old configs every `sliding_window_pattern`-th one sees everything."""
    period = c.integer("sliding_window_pattern", period)
    return blocks.layer_types(c, ["sliding_attention" if (i + 1) % period else "full_attention" for i in range(layers)])


def layer_rotation(g: Graph, c: Config, w: Weights, head_dim: int, kind: str, *, two_bases: bool) -> blocks.Rotation:
    """The rotation of a kind of layer: with two bases, old configs give windowed layers one of their own, unscaled."""
    local = c.number("rope_local_base_freq", 10000.0)
    if not two_bases:
        return blocks.rotation(g, c, w, head_dim=head_dim, pairing="half")
    if kind == "sliding_attention" and c.get("rope_parameters") is None:
        c = Config({"rope_theta": local}, container=c.container, path=c.path)
    return blocks.rotation(g, c, w, head_dim=head_dim, pairing="half", layer_type=kind, theta=1e6)
