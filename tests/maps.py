"""The committed architecture → kernel maps in `docs/maps/`. `python tests/maps.py` writes them anew.

Models of real shapes are described by their config alone (`tests/data/configs/`): a map needs no weights. The two GGUF
files that installed packages carry show quantised plans.
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ferrule import architectures
from ferrule.architectures.config import Config
from ferrule.architectures.weights import Rows, Weights
from ferrule.checkpoint import open_checkpoint, packages
from ferrule.engine.kv_cache import cache_dtype
from ferrule.formats import FORMATS
from ferrule.graph import Graph, Weight
from ferrule.lowering import cpu_target, lower, metal_target, show

MAPS = Path(__file__).parent.parent / "docs" / "maps"
CONFIGS = Path(__file__).parent / "data" / "configs"
TARGETS = {"avx512_vnni": cpu_target, "apple9": metal_target}


class ShapesOnly(Weights):
    """Stands for a checkpoint of bfloat16 tensors: invents every tensor that is asked for, with no memory behind it."""

    def __init__(self, optional: list[str]) -> None:
        super().__init__({}, path="")
        self._optional = optional

    def at(self, prefix: str) -> "ShapesOnly":
        view = ShapesOnly(self._optional)
        view._prefix = f"{self._prefix}{prefix}."
        return view

    def __contains__(self, name: str) -> bool:
        return any(re.search(pattern, self._prefix + name) for pattern in self._optional)

    def matrix(self, name: str, n_out: int, n_in: int, *, rows: Rows | None = None, transposed: bool = False) -> Weight:
        size = n_out * FORMATS["BF16"].row_bytes(n_in)
        return Weight(self._prefix + name, (n_out, n_in), "BF16", np.broadcast_to(np.uint8(0), size))

    def vector(self, name: str, n: int, *, rows: Rows | None = None) -> Weight:
        return Weight(self._prefix + name, (n,), "F32", np.broadcast_to(np.uint8(0), 4 * n))


def graph_of(description: Mapping[str, Any]) -> Graph:
    """The graph of a model described by config and list of optional tensors."""
    config = Config(description["config"], container="safetensors", path="")
    _, family = architectures.find_family(description["config"], "")
    graph = Graph()
    family.build(graph, config, ShapesOnly(description["optional_tensors"]))
    config.refuse_unread()
    return graph


def graphs() -> Iterator[tuple[str, Graph]]:
    """(name, graph) of every model that has committed maps."""
    for path in sorted(CONFIGS.glob("*.json")):
        yield path.stem, graph_of(json.loads(path.read_text()))
    for package in packages.installed_models():
        path = package.path(progress=False)
        yield path.stem.lower(), architectures.record(open_checkpoint(path)).graph


def maps() -> Iterator[tuple[str, str]]:
    """(file name, text) of every committed map."""
    for name, graph in graphs():
        for target, make in TARGETS.items():
            for row_class in (make(target).row_class(1), "many_rows"):
                plan = lower(graph, make(target), row_class, kv_dtype=cache_dtype(graph), allow_missing=True)
                yield f"{name}.{target}.{row_class}.txt", f"{name}: {show.as_text(plan)}"


if __name__ == "__main__":
    for old in MAPS.glob("*.txt"):
        old.unlink()
    for file, text in maps():
        (MAPS / file).write_text(text)
        sys.stdout.write(f"{file}\n")
