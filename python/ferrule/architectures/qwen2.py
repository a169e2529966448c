"""Qwen2 and Qwen2.5: Llama with biases on q, k and v, and optionally windows on the upper layers."""

from __future__ import annotations

from ..graph import Graph
from . import blocks
from .config import Config
from .weights import Weights

MODEL_TYPES = ("qwen2",)
ARCHITECTURES = ("Qwen2ForCausalLM",)
IGNORED_TENSORS = (r"rotary_emb\.inv_freq$",)


def build(g: Graph, c: Config, w: Weights) -> None:
    """Records the forward pass."""
    build_qwen(g, c, w, qk_norm=False)


def build_qwen(g: Graph, c: Config, w: Weights, *, qk_norm: bool) -> None:
    """Qwen2 and Qwen3: pre-norm decoder, split-half rotation in every container."""
    hidden, heads = c.integer("hidden_size"), c.integer("num_attention_heads")
    kv_heads = c.integer("num_key_value_heads", heads)
    head_dim = c.integer("head_dim", hidden // heads)
    ffn, vocabulary = c.integer("intermediate_size"), c.integer("vocab_size")
    activation = c.choice("hidden_act", blocks.ACTIVATIONS, "silu")
    norm = blocks.Norm(c.number("rms_norm_eps", 1e-6))
    windows = layer_windows(c, c.integer("num_hidden_layers"))
    c.get("attention_bias")  # the tensors themselves say whether there are biases

    rotation = blocks.rotation(g, c, w, head_dim=head_dim, pairing="half")
    embedding = w.matrix("model.embed_tokens.weight", vocabulary, hidden)
    x = g.embedding(embedding)
    for i, window in enumerate(windows):
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
                scale=head_dim**-0.5,
                rotation=rotation,
                window=window,
                qk_norm=norm if qk_norm else None,
            )
            with g.stage("attention residual"):
                x = g.add(x, mixed)
            with g.stage("ffn norm"):
                normed = norm(g, x, layer.vector("post_attention_layernorm.weight", hidden))
            mixed = blocks.gated_ffn(g, normed, layer.at("mlp"), width=ffn, activation=activation)
            with g.stage("ffn residual"):
                x = g.add(x, mixed)
    blocks.head(g, x, w, norm=norm, embedding=embedding)


def layer_windows(c: Config, layers: int) -> list[int]:
    """Window of each layer: only with `use_sliding_window`, and then from `max_window_layers` up."""
    window, first = c.integer("sliding_window", 0), c.integer("max_window_layers", layers)
    types = c.get("layer_types") or ["full_attention" if i < first else "sliding_attention" for i in range(layers)]
    if not c.get("use_sliding_window", False):
        window = 0
    return blocks.windows(types, window, layers, path=c.path)
