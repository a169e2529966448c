"""One file per family: it reads the config and records the forward pass in a Graph.

A family file declares `MODEL_TYPES` (config.json's `model_type`, or GGUF's architecture in Hugging Face's spelling),
`ARCHITECTURES` (class names), `IGNORED_TENSORS` (patterns of tensors outside the text model) and
`build(graph, config, weights)`. Nothing else needs to know of it.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from ..checkpoint.base import Checkpoint
from ..errors import UnsupportedArchitecture
from ..graph import Graph
from .config import Config
from .weights import Weights

_SHARED = {"blocks", "config", "rope", "weights"}
# What families call the longest text that they are made for.
_CONTEXT_KEYS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length")
_TEXT_TOWERS = {
    "model.language_model.": "model.",
    "model.text_model.": "model.",
    "language_model.model.": "model.",
    "language_model.lm_head.": "lm_head.",
}


@dataclass(frozen=True)
class Architecture:
    """A recorded model: the graph, the family that recorded it, and the text model's config."""

    family: str
    graph: Graph
    config: Config

    @property
    def context(self) -> int:
        """The longest text that the model is made for; frequencies that follow its length stretch the config's."""
        stretch = [op.attributes["factor"] for op in self.graph.ops if op.kind == "dynamic_rope_table"]
        limit = next((self.config.integer(key) for key in _CONTEXT_KEYS if self.config.get(key)), 4096)
        return int(limit * max(stretch, default=1))


def families() -> dict[str, ModuleType]:
    """File stem -> family module, for every family."""
    return {name: _family(name) for name in _family_names()}


def record(checkpoint: Checkpoint, *, ignore_config_keys: Iterable[str] = ()) -> Architecture:
    """Finds the checkpoint's family and records its graph.

    Raises UnsupportedArchitecture for an unknown family, config key or tensor; CorruptFile where config and tensors
    contradict each other.
    """
    path = str(checkpoint.path)
    name, module = find_family(checkpoint.config, path)
    values: dict[str, Any] = dict(checkpoint.config)
    tensors = checkpoint.tensors
    if "text_config" in values:
        Config(values, container=checkpoint.container, path=path).section("text_config")  # or raises
        values = {**{k: v for k, v in values.items() if k == "tie_word_embeddings"}, **values["text_config"]}
        tensors = {hoisted(tensor): stored for tensor, stored in tensors.items()}
    values = {k: v for k, v in values.items() if k not in set(ignore_config_keys)}
    config = Config(values, container=checkpoint.container, path=path)
    if config.flag("tie_word_embeddings", False):
        tensors = {tensor: stored for tensor, stored in tensors.items() if tensor != "lm_head.weight"}
    weights = Weights(tensors, path=path, untied=values.get("tie_word_embeddings") is False)
    graph = Graph()
    module.build(graph, config, weights)
    config.refuse_unread()
    weights.refuse_missing()
    weights.refuse_unused(module.IGNORED_TENSORS)
    return Architecture(name, graph, config)


def find_family(config: Any, path: str) -> tuple[str, ModuleType]:
    """(name, module) of the family that serves a config. Raises UnsupportedArchitecture where none does."""
    model_type, listed = config.get("model_type"), config.get("architectures")
    classes = [str(name) for name in listed] if isinstance(listed, list) else []
    names = _family_names()
    # Importing every family takes longer than opening a small model and recording it. Most model types resemble their
    # family's name: with the names in that order, hardly any other is imported.
    for name in difflib.get_close_matches(str(model_type), names, len(names), cutoff=0.0):
        if model_type in _family(name).MODEL_TYPES:
            return name, _family(name)
    known = families()
    for item in known.items():
        if set(classes) & set(item[1].ARCHITECTURES):
            return item
    types = sorted(t for module in known.values() for t in module.MODEL_TYPES)
    near = difflib.get_close_matches(str(model_type), types, 1)
    raise UnsupportedArchitecture(
        f"unknown architecture: model_type {model_type!r}, architectures {classes}",
        path=path,
        hint=f"Supported model types: {', '.join(types)}" + (f" (did you mean {near[0]!r}?)" if near else ""),
    )


def hoisted(tensor: str) -> str:
    """The name that a tensor of a model's text tower has in a text model."""
    for prefix, replacement in _TEXT_TOWERS.items():
        if tensor.startswith(prefix):
            return replacement + tensor.removeprefix(prefix)
    return tensor


def _family_names() -> list[str]:
    return [module.name for module in pkgutil.iter_modules(__path__) if module.name not in _SHARED]


def _family(name: str) -> ModuleType:
    return importlib.import_module(f"{__name__}.{name}")
