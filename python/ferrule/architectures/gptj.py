"""GPT-J: attention and FFN side by side on one norm, partial rotation of neighbours."""

from __future__ import annotations

from collections.abc import Callable

from ..graph import Graph, Value
from . import blocks
from .config import Config
from .weights import Weights

MODEL_TYPES = ("gptj",)
ARCHITECTURES = ("GPTJForCausalLM",)
IGNORED_TENSORS = (r"attn\.(masked_)?bias$", r"attn\.embed_positions$")

Project = Callable[[Graph, Value, Weights, blocks.Heads], tuple[Value, Value, Value]]
"""Makes queries, keys and values of an input, with the weights of an attention."""


def build(g: Graph, c: Config, w: Weights) -> None:
    """Records the forward pass."""
    build_gptj(g, c, w, project=blocks.project_qkv)


def build_gptj(g: Graph, c: Config, w: Weights, *, project: Project) -> None:
    """GPT-J with queries, keys and values by `project`."""
    hidden, n_heads = c.integer("n_embd"), c.integer("n_head")
    heads = blocks.Heads.of(c, n_heads, n_heads, hidden // n_heads)
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
        attention = layer.at("attn")
        with g.layer(i):
            h = norm(g, x, layer, "ln_1", stage="attention norm")
            qkv = project(g, h, attention, heads)
            mixed = blocks.attend(g, *qkv, heads, scale=heads.dim**-0.5, rotation=rotation)
            with g.stage("attention output"):
                mixed = blocks.linear(g, mixed, attention, "out_proj", hidden)
            x = blocks.residual(g, x, mixed, "attention residual")
            mixed = blocks.ffn(g, h, layer.at("mlp"), width=ffn, activation=activation, names=("fc_in", "fc_out"))
            x = blocks.residual(g, x, mixed, "ffn residual")
    blocks.head(g, x, w, norm=norm, embedding=embedding, norm_name="transformer.ln_f")
