"""Gemma 1: Llama with another norm, scaled embeddings and GELU."""

from __future__ import annotations

from ..graph import Graph
from .config import Config
from .gemma3 import build_gemma
from .weights import Weights

MODEL_TYPES = ("gemma",)
ARCHITECTURES = ("GemmaForCausalLM",)
IGNORED_TENSORS = (r"rotary_emb\.inv_freq$",)


def build(g: Graph, c: Config, w: Weights) -> None:
    """Records the forward pass."""
    build_gemma(g, c, w, sandwich=False, qk_norm=False, period=1)
