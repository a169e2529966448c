"""EXAONE 4: norms on what attention and FFN give; of windowed models only the windowed layers rotate."""

from __future__ import annotations

from ..graph import Graph
from . import blocks
from .config import Config
from .weights import Weights

MODEL_TYPES = ("exaone4",)
ARCHITECTURES = ("Exaone4ForCausalLM",)
IGNORED_TENSORS = (r"rotary_emb\.inv_freq$",)


def build(g: Graph, c: Config, w: Weights) -> None:
    """Records the forward pass."""
    hidden, heads, layers = c.integer("hidden_size"), blocks.Heads.read(c), c.integer("num_hidden_layers")
    ffn, vocabulary = c.integer("intermediate_size"), c.integer("vocab_size")
    activation = c.choice("hidden_act", blocks.ACTIVATIONS, "silu")
    norm, window = blocks.Norm(c.number("rms_norm_eps", 1e-5)), c.integer("sliding_window", 0)
    # A period is a number, or a string of one letter a layer such as LLLG.
    pattern = c.get("sliding_window_pattern")
    least = 1 if window else 0
    period = (
        len(pattern) if isinstance(pattern, str) and pattern else c.integer("sliding_window_pattern", 4, least=least)
    )
    usual = ["sliding_attention" if window and (i + 1) % period else "full_attention" for i in range(layers)]
    windows = blocks.windows(blocks.layer_types(c, usual), window)

    rotation = blocks.rotation(g, c, w, head_dim=heads.dim, pairing="half")
    embedding = w.matrix("model.embed_tokens.weight", vocabulary, hidden)
    x = g.embedding(embedding)
    for i, here in enumerate(windows):
        layer = w.at(f"model.layers.{i}")
        turns = here or not window
        with g.layer(i):
            h = blocks.self_attention(
                g,
                x,
                layer.at("self_attn"),
                heads,
                rotation=rotation if turns else None,
                window=here,
                qk_norm=norm,
            )
            h = norm(g, h, layer, "post_attention_layernorm", stage="attention post norm")
            x = blocks.residual(g, x, h, "attention residual")
            h = blocks.gated_ffn(g, x, layer.at("mlp"), width=ffn, activation=activation)
            h = norm(g, h, layer, "post_feedforward_layernorm", stage="ffn post norm")
            x = blocks.residual(g, x, h, "ffn residual")
    blocks.head(g, x, w, norm=norm, embedding=embedding)
