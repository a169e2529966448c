"""SmolLM3: Llama, some of whose layers do not rotate queries and keys."""

from __future__ import annotations

from ..graph import Graph
from . import blocks
from .config import Config
from .weights import Weights

MODEL_TYPES = ("smollm3",)
ARCHITECTURES = ("SmolLM3ForCausalLM",)
IGNORED_TENSORS = ()


def build(g: Graph, c: Config, w: Weights) -> None:
    """Records the forward pass."""
    hidden, heads, layers = c.integer("hidden_size"), blocks.Heads.read(c), c.integer("num_hidden_layers")
    ffn, vocabulary = c.integer("intermediate_size"), c.integer("vocab_size")
    activation = c.choice("hidden_act", blocks.ACTIVATIONS, "silu")
    norm = blocks.Norm(c.number("rms_norm_eps", 1e-6))
    c.ignore("attention_bias", "mlp_bias")  # the tensors say which there are

    # A list of which layers rotate or, without one, every `no_rope_layer_interval`-th that does not.
    period = c.integer("no_rope_layer_interval", 4)
    rotates = c.integers("no_rope_layers", [(i + 1) % period for i in range(layers)], count=layers)
    window = c.integer("sliding_window", 0) if c.flag("use_sliding_window", False) else 0
    c.ignore("sliding_window")
    usual = ["sliding_attention" if window and turns else "full_attention" for turns in rotates]
    windows = blocks.windows(blocks.layer_types(c, usual), window)

    # Converters to GGUF permute the rows of q and k of this family, so that pairs become neighbours.
    pairing = "adjacent" if c.container == "gguf" else "half"
    rotation = blocks.rotation(g, c, w, head_dim=heads.dim, pairing=pairing, theta=2e6)
    embedding = w.matrix("model.embed_tokens.weight", vocabulary, hidden)
    x = g.embedding(embedding)
    for i, (turns, window) in enumerate(zip(rotates, windows, strict=True)):
        layer = w.at(f"model.layers.{i}")
        with g.layer(i):
            h = norm(g, x, layer, "input_layernorm", stage="attention norm")
            h = blocks.self_attention(
                g, h, layer.at("self_attn"), heads, rotation=rotation if turns else None, window=window
            )
            x = blocks.residual(g, x, h, "attention residual")
            h = norm(g, x, layer, "post_attention_layernorm", stage="ffn norm")
            h = blocks.gated_ffn(g, h, layer.at("mlp"), width=ffn, activation=activation)
            x = blocks.residual(g, x, h, "ffn residual")
    blocks.head(g, x, w, norm=norm, embedding=embedding)
