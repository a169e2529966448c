"""Arcee: Llama without a gate in its FFN."""

from __future__ import annotations

from ..graph import Graph
from .config import Config
from .llama import build_llama
from .weights import Weights

MODEL_TYPES = ("arcee",)
ARCHITECTURES = ("ArceeForCausalLM",)
IGNORED_TENSORS = ()


def build(g: Graph, c: Config, w: Weights) -> None:
    """Records the forward pass."""
    build_llama(g, c, w, gated=False)
