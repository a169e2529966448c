"""Mamba 2: a state space mixer of heads a layer and nothing else."""

from __future__ import annotations

from ..graph import Graph
from . import blocks
from .config import Config
from .mamba import ignore_training
from .weights import Weights

MODEL_TYPES = ("mamba2",)
ARCHITECTURES = ("Mamba2ForCausalLM",)
IGNORED_TENSORS = ()


def build(g: Graph, c: Config, w: Weights) -> None:
    """Records the forward pass."""
    hidden, vocabulary = c.integer("hidden_size"), c.integer("vocab_size")
    norm = blocks.Norm(c.number("layer_norm_epsilon", 1e-5))
    c.expect("hidden_act", "silu")
    c.ignore("use_bias", "use_conv_bias", "norm_before_gate", "rms_norm", "time_step_rank")
    ignore_training(c)

    embedding = w.matrix("backbone.embeddings.weight", vocabulary, hidden)
    x = g.embedding(embedding)
    for i in range(c.integer("num_hidden_layers")):
        layer = w.at(f"backbone.layers.{i}")
        with g.layer(i):
            h = norm(g, x, layer, "norm", stage="ssm norm")
            h = blocks.mamba2(
                g,
                h,
                layer.at("mixer"),
                heads=c.integer("num_heads"),
                head_dim=c.integer("head_dim"),
                groups=c.integer("n_groups"),
                state=c.integer("state_size"),
                kernel=c.integer("conv_kernel", 4),
                dt_limits=c.limits("time_step_limit", (0.0, float("inf"))),
                is_log=c.container != "gguf",
                norm=norm,
            )
            x = blocks.residual(g, x, h, "ssm residual")
    blocks.head(g, x, w, norm=norm, embedding=embedding, norm_name="backbone.norm_f")
