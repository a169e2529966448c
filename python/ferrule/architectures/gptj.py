"""GPT-J: attention and FFN side by side on one norm, partial rotation of neighbours."""

from __future__ import annotations

from ..graph import Graph
from . import blocks
from .config import Config
from .weights import Weights

MODEL_TYPES = ("gptj",)
ARCHITECTURES = ("GPTJForCausalLM",)
IGNORED_TENSORS = (r"attn\.(masked_)?bias$", r"attn\.embed_positions$")


def build(g: Graph, c: Config, w: Weights) -> None:
    """Records the forward pass."""
    hidden, n_heads = c.integer("n_embd"), c.integer("n_head")
    heads = blocks.Heads(n_heads, n_heads, hidden // n_heads)
    ffn, vocabulary = c.integer("n_inner", 4 * hidden), c.integer("vocab_size")
    activation = c.choice("activation_function", blocks.ACTIVATIONS, "gelu_new")
    norm = blocks.Norm(c.number("layer_norm_epsilon", 1e-5), kind="layer")
    c.ignore("n_positions", "rotary", "scale_attn_weights")
    c.ignore(*(key for key in c if key.startswith("summary_")))

    partial = c.integer("rotary_dim", 64) / heads.dim
    rotation = blocks.rotation(g, c, w, head_dim=heads.dim, pairing="adjacent", partial=partial)
    embedding = w.matrix("transformer.wte.weight", vocabulary, hidden)
    x = g.embedding(embedding)
    for i in range(c.integer("n_layer")):
        layer = w.at(f"transformer.h.{i}")
        with g.layer(i):
            h = norm(g, x, layer, "ln_1", stage="attention norm")
            mixed = blocks.self_attention(g, h, layer.at("attn"), heads, rotation=rotation, output="out_proj")
            x = blocks.residual(g, x, mixed, "attention residual")
            mixed = blocks.ffn(g, h, layer.at("mlp"), width=ffn, activation=activation, names=("fc_in", "fc_out"))
            x = blocks.residual(g, x, mixed, "ffn residual")
    blocks.head(g, x, w, norm=norm, embedding=embedding, norm_name="transformer.ln_f")
