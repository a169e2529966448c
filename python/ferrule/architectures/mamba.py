"""Mamba and Falcon-Mamba: a state space mixer a layer and nothing else."""

from __future__ import annotations

from collections.abc import Callable

from ..graph import Graph, Value
from . import blocks
from .config import Config
from .weights import Weights

MODEL_TYPES = ("mamba", "falcon_mamba")
ARCHITECTURES = ("MambaForCausalLM", "FalconMambaForCausalLM")
IGNORED_TENSORS = ()


def build(g: Graph, c: Config, w: Weights) -> None:
    """Records the forward pass."""
    hidden, vocabulary = c.integer("hidden_size"), c.integer("vocab_size")
    inner = c.integer("intermediate_size", c.integer("expand", 2) * hidden)
    state, kernel = c.integer("state_size", 16), c.integer("conv_kernel", 4)
    is_auto = c.get("time_step_rank", "auto") == "auto"
    rank = -(-hidden // 16) if is_auto else c.integer("time_step_rank")
    norm = blocks.Norm(c.number("layer_norm_epsilon", 1e-5))
    c.expect("hidden_act", "silu")
    c.ignore("use_bias", "use_conv_bias")  # the tensors say which there are
    ignore_training(c)

    embedding = w.matrix("backbone.embeddings.weight", vocabulary, hidden)
    x = g.embedding(embedding)
    norms = plain_norms(g, c)
    for i in range(c.integer("num_hidden_layers")):
        layer = w.at(f"backbone.layers.{i}")
        with g.layer(i):
            h = norm(g, x, layer, "norm", stage="ssm norm")
            h = blocks.mamba(
                g,
                h,
                layer.at("mixer"),
                inner=inner,
                state=state,
                rank=rank,
                kernel=kernel,
                is_log=c.container != "gguf",
                norms=norms,
            )
            x = blocks.residual(g, x, h, "ssm residual")
    blocks.head(g, x, w, norm=norm, embedding=embedding, norm_name="backbone.norm_f")


def ignore_training(c: Config) -> None:
    """Keys of state space models that only matter in training, or choose between equal implementations."""
    c.ignore("expand", "rescale_prenorm_residual", "residual_in_fp32", "chunk_size", "mamba_chunk_size")
    c.ignore("time_step_floor", "time_step_max", "time_step_min", "time_step_init_scheme", "time_step_scale")
    c.ignore("use_associative_scan", "use_mambapy", "use_mamba_kernels", "use_falcon_mambapy", "mamba_expand")


def plain_norms(g: Graph, c: Config) -> Callable[[Value, str], Value]:
    """Norms without weights on step sizes and inputs of the recurrence, where the config has an epsilon for them."""
    eps = c.number("mixer_rms_eps", 0.0)
    return lambda x, name: g.rms_norm(x, None, eps) if eps else x
