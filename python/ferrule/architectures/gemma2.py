"""Gemma 2: four norms a layer, every other layer windowed, softcaps on scores and logits."""

from __future__ import annotations

from ..graph import Graph
from .config import Config
from .gemma3 import build_gemma
from .weights import Weights

MODEL_TYPES = ("gemma2",)
ARCHITECTURES = ("Gemma2ForCausalLM",)
IGNORED_TENSORS = (r"rotary_emb\.inv_freq$",)


def build(g: Graph, c: Config, w: Weights) -> None:
    """Records the forward pass."""
    build_gemma(g, c, w, sandwich=True, qk_norm=False, period=2)
