"""DeepSeek V3.2: V3 whose attention sees the positions that an indexer selects."""

from __future__ import annotations

from ..errors import CorruptFile
from ..graph import Graph, Value
from . import blocks
from .config import Config
from .deepseek import build_deepseek
from .weights import Weights

MODEL_TYPES = ("deepseek_v32",)
ARCHITECTURES = ("DeepseekV32ForCausalLM",)
IGNORED_TENSORS = (r"rotary_emb\.inv_freq$",)


def build(g: Graph, c: Config, w: Weights) -> None:
    """Records the forward pass."""
    build_indexed(g, c, w, pairing="half")


def build_indexed(g: Graph, c: Config, w: Weights, *, pairing: str) -> None:
    """V3 with an indexer, whose queries and keys rotate by `pairing`; a "shared" layer takes the last selection."""
    layers, rotated = c.integer("num_hidden_layers"), c.integer("qk_rope_head_dim")
    heads, dim, top = c.integer("index_n_heads"), c.integer("index_head_dim"), c.integer("index_topk")
    c.expect("layer_types", ["indexed_attention"] * layers)
    selects = c.choices("indexer_types", {"full": True, "shared": False}, ["full"] * layers, count=layers)
    if not selects[0]:
        raise CorruptFile("config key 'indexer_types'", path=c.path, expected="'full' first", found="'shared'")
    rotation = blocks.rotation(g, c, w, head_dim=c.integer("head_dim", rotated), pairing=pairing)
    last: list[Value] = []

    def select(layer: int, x: Value, latent: Value, *, w: Weights) -> Value:
        if selects[layer]:
            last[:] = [blocks.index_selection(g, x, latent, w, heads=heads, dim=dim, rotation=rotation, top=top)]
        return last[0]

    build_deepseek(g, c, w, select=select)
