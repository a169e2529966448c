"""Qwen2, Qwen2.5 and their vision models' text towers, Seed-OSS: Llama with biases on q, k and v."""

from __future__ import annotations

from ..graph import Graph
from . import blocks
from .config import Config
from .weights import Weights

MODEL_TYPES = ("qwen2", "qwen2_vl", "qwen2_5_vl", "seed_oss")
ARCHITECTURES = (
    "Qwen2ForCausalLM",
    "Qwen2VLForConditionalGeneration",
    "Qwen2_5_VLForConditionalGeneration",
    "SeedOssForCausalLM",
)
IGNORED_TENSORS = (r"rotary_emb\.inv_freq$", r"^(model\.)?visual\.")


def build(g: Graph, c: Config, w: Weights) -> None:
    """Records the forward pass."""
    build_qwen(g, c, w, qk_norm=False)


def build_qwen(g: Graph, c: Config, w: Weights, *, qk_norm: bool) -> None:
    """Qwen2 and Qwen3: pre-norm decoder, split-half rotation in every container."""
    hidden, heads = c.integer("hidden_size"), blocks.Heads.read(c)
    ffn, vocabulary = c.integer("intermediate_size"), c.integer("vocab_size")
    activation = c.choice("hidden_act", blocks.ACTIVATIONS, "silu")
    norm = blocks.Norm(c.number("rms_norm_eps", 1e-6))
    c.ignore("attention_bias", "attention_out_bias", "mlp_bias")  # the tensors say which there are

    rotation = blocks.rotation(g, c, w, head_dim=heads.dim, pairing="half")
    embedding = w.matrix("model.embed_tokens.weight", vocabulary, hidden)
    x = g.embedding(embedding)
    for i, window in enumerate(layer_windows(c, c.integer("num_hidden_layers"))):
        layer = w.at(f"model.layers.{i}")
        with g.layer(i):
            h = norm(g, x, layer, "input_layernorm", stage="attention norm")
            h = blocks.self_attention(
                g,
                h,
                layer.at("self_attn"),
                heads,
                rotation=rotation,
                window=window,
                qk_norm=norm if qk_norm else None,
            )
            x = blocks.residual(g, x, h, "attention residual")
            h = norm(g, x, layer, "post_attention_layernorm", stage="ffn norm")
            h = blocks.gated_ffn(g, h, layer.at("mlp"), width=ffn, activation=activation)
            x = blocks.residual(g, x, h, "ffn residual")
    blocks.head(g, x, w, norm=norm, embedding=embedding)


def layer_windows(c: Config, layers: int) -> list[int]:
    """Window of each layer: only with `use_sliding_window`, and then from `max_window_layers` up."""
    window, first = c.integer("sliding_window", 0), c.integer("max_window_layers", layers, least=0)
    usual = ["full_attention" if i < first else "sliding_attention" for i in range(layers)]
    types = blocks.layer_types(c, usual)
    if not c.flag("use_sliding_window", False):
        window = 0
    return blocks.windows(types, window)
