"""Qwen3 and its vision model's text tower: Qwen2 with an RMS norm on every query and key head."""

from __future__ import annotations

from ..graph import Graph
from .config import Config
from .qwen2 import build_qwen
from .weights import Weights

MODEL_TYPES = ("qwen3", "qwen3_vl")
ARCHITECTURES = ("Qwen3ForCausalLM", "Qwen3VLForConditionalGeneration")
IGNORED_TENSORS = (r"^model\.visual\.",)


def build(g: Graph, c: Config, w: Weights) -> None:
    """Records the forward pass."""
    build_qwen(g, c, w, qk_norm=True)
