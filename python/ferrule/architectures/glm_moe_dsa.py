"""GLM-5: DeepSeek V3.2 whose indexer rotates neighbours."""

from __future__ import annotations

from ..graph import Graph
from .config import Config
from .deepseek_v32 import build_indexed
from .weights import Weights

MODEL_TYPES = ("glm_moe_dsa",)
ARCHITECTURES = ("GlmMoeDsaForCausalLM",)
IGNORED_TENSORS = (r"rotary_emb\.inv_freq$",)


def build(g: Graph, c: Config, w: Weights) -> None:
    """Records the forward pass."""
    build_indexed(g, c, w, pairing="adjacent")
