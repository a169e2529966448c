"""OLMo 2 and 3: norms on what attention and FFN give, not on what they take; windows in OLMo 3."""

from __future__ import annotations

from ..graph import Graph
from . import blocks
from .config import Config
from .weights import Weights

MODEL_TYPES = ("olmo2", "olmo3")
ARCHITECTURES = ("Olmo2ForCausalLM", "Olmo3ForCausalLM")
IGNORED_TENSORS = (r"rotary_emb\.inv_freq$",)


def build(g: Graph, c: Config, w: Weights) -> None:
    """Records the forward pass."""
    hidden, heads, layers = c.integer("hidden_size"), blocks.Heads.read(c), c.integer("num_hidden_layers")
    ffn, vocabulary = c.integer("intermediate_size"), c.integer("vocab_size")
    activation = c.choice("hidden_act", blocks.ACTIVATIONS, "silu")
    norm = blocks.Norm(c.number("rms_norm_eps", 1e-5))
    c.ignore("attention_bias")  # the tensors say
    window = c.integer("sliding_window", 0)
    usual = ["sliding_attention" if window and (i + 1) % 4 else "full_attention" for i in range(layers)]
    types = blocks.layer_types(c, usual)
    windows = blocks.windows(types, window)

    rotations = {kind: layer_rotation(g, c, w, heads.dim, kind) for kind in sorted(set(types))}
    embedding = w.matrix("model.embed_tokens.weight", vocabulary, hidden)
    x = g.embedding(embedding)
    for i, (kind, window) in enumerate(zip(types, windows, strict=True)):
        layer = w.at(f"model.layers.{i}")
        with g.layer(i):
            h = blocks.self_attention(
                g,
                x,
                layer.at("self_attn"),
                heads,
                rotation=rotations[kind],
                window=window,
                qk_norm=norm,
                whole_rows=True,
            )
            h = norm(g, h, layer, "post_attention_layernorm", stage="attention post norm")
            x = blocks.residual(g, x, h, "attention residual")
            h = blocks.gated_ffn(g, x, layer.at("mlp"), width=ffn, activation=activation)
            h = norm(g, h, layer, "post_feedforward_layernorm", stage="ffn post norm")
            x = blocks.residual(g, x, h, "ffn residual")
    blocks.head(g, x, w, norm=norm, embedding=embedding)


def layer_rotation(g: Graph, c: Config, w: Weights, head_dim: int, kind: str) -> blocks.Rotation:
    """The rotation of a kind of layer: what an old-form config scales is the layers without a window."""
    if kind == "sliding_attention" and c.get("rope_parameters") is None:
        c = Config({"rope_theta": c.number("rope_theta", 10000.0)}, container=c.container, path=c.path)
    return blocks.rotation(g, c, w, head_dim=head_dim, pairing="half", layer_type=kind)
