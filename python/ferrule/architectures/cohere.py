"""Command R, R+, R7B, A: attention and FFN side by side on one norm, scaled logits; windows and unrotated layers."""

from __future__ import annotations

from ..graph import Graph
from . import blocks
from .config import Config
from .weights import Weights

MODEL_TYPES = ("cohere", "cohere2")
ARCHITECTURES = ("CohereForCausalLM", "Cohere2ForCausalLM")
IGNORED_TENSORS = (r"rotary_emb\.inv_freq$",)


def build(g: Graph, c: Config, w: Weights) -> None:
    """Records the forward pass."""
    hidden, heads, layers = c.integer("hidden_size"), blocks.Heads.read(c), c.integer("num_hidden_layers")
    ffn, vocabulary = c.integer("intermediate_size"), c.integer("vocab_size")
    activation = c.choice("hidden_act", blocks.ACTIVATIONS, "silu")
    norm = blocks.Norm(c.number("layer_norm_eps", 1e-5), kind="layer")
    qk_norm = norm if c.flag("use_qk_norm", False) else None
    c.ignore("attention_bias")  # the tensors say
    c.expect("use_parallel_block", True)
    c.expect("use_gated_activation", True)
    c.expect("rotary_pct", 1.0)
    c.expect("position_embedding_type", "rope_gptj")

    window = c.integer("sliding_window", 0)
    period = c.integer("sliding_window_pattern", 4)
    usual = ["sliding_attention" if window and (i + 1) % period else "full_attention" for i in range(layers)]
    c.ignore("order_of_interleaved_layers", "layer_switch", "rotary_embedding")
    windows = blocks.windows(blocks.layer_types(c, usual), window)

    # Neighbours are rotated in every container; where there are windows, only layers that have one.
    rotation = blocks.rotation(g, c, w, head_dim=heads.dim, pairing="adjacent")
    embedding = w.matrix("model.embed_tokens.weight", vocabulary, hidden)
    x = g.embedding(embedding)
    for i, here in enumerate(windows):
        layer = w.at(f"model.layers.{i}")
        turns = here or not window
        with g.layer(i):
            h = norm(g, x, layer, "input_layernorm", stage="attention norm")
            mixed = blocks.self_attention(
                g,
                h,
                layer.at("self_attn"),
                heads,
                rotation=rotation if turns else None,
                window=here,
                qk_norm=qk_norm,
                shared_norms=False,
            )
            x = blocks.residual(g, x, mixed, "attention residual")
            mixed = blocks.gated_ffn(g, h, layer.at("mlp"), width=ffn, activation=activation)
            x = blocks.residual(g, x, mixed, "ffn residual")
    blocks.head(g, x, w, norm=norm, embedding=embedding, scale=c.number("logit_scale", 1.0))
