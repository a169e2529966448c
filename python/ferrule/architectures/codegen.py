"""CodeGen: GPT-J with one matrix for queries, keys and values, in the parts that its training was split into."""

from __future__ import annotations

import numpy as np

from ..graph import Graph, Value
from . import blocks
from .config import Config
from .gptj import build_gptj
from .weights import Weights

MODEL_TYPES = ("codegen",)
ARCHITECTURES = ("CodeGenForCausalLM",)
IGNORED_TENSORS = (r"attn\.causal_mask$",)
PARTS = 4  # in every model; no config says it


def build(g: Graph, c: Config, w: Weights) -> None:
    """Records the forward pass."""
    c.ignore("n_ctx")  # a second name of n_positions, which nothing uses
    build_gptj(g, c, w, project=project_parts)


def project_parts(g: Graph, x: Value, w: Weights, heads: blocks.Heads) -> tuple[Value, Value, Value]:
    """Queries, keys and values [tokens, heads.q * dim] from one matrix: each part has its queries, values and keys."""
    width = heads.q * heads.dim
    rows = np.arange(3 * width).reshape(PARTS, 3, blocks.whole(width, PARTS, "heads, all together", path=w.path))
    with g.stage("qkv"):
        q, v, k = (blocks.linear(g, x, w, "qkv_proj", width, rows=rows[:, i].reshape(-1)) for i in range(3))
    return q, k, v
