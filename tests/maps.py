"""The committed architecture → kernel maps in `docs/maps/`. `python tests/maps.py` writes them anew.

A file holds the plans of one model on one target, for each row class.

Models of real shapes are described by their config alone (`tests/data/configs/`): a map needs no weights. The two GGUF
files that installed packages carry show quantised plans.
"""

import functools
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ferrule import architectures
from ferrule.architectures.config import Config
from ferrule.architectures.weights import Rows, Weights
from ferrule.checkpoint import open_checkpoint, packages
from ferrule.engine.kv_cache import cache_dtype
from ferrule.formats import FORMATS
from ferrule.graph import Experts, Graph, Weight
from ferrule.lowering import cpu_target, lower, metal_target, show

MAPS = Path(__file__).parent.parent / "docs" / "maps"
CONFIGS = Path(__file__).parent / "data" / "configs"
TARGETS = {"avx512_vnni": cpu_target, "apple9": metal_target}


class ShapesOnly(Weights):
    """Stands for a checkpoint: invents every tensor that is asked for, with no memory behind it.

    `optional`: patterns of the tensors that it has of those that a family asks after. `formats`: pattern -> format of
    matrices, bfloat16 otherwise.
    """

    def __init__(self, optional: list[str], formats: Mapping[str, str], *, untied: bool) -> None:
        super().__init__({}, path="", untied=untied)
        self._optional, self._formats = optional, formats

    def at(self, prefix: str) -> "ShapesOnly":
        view = ShapesOnly(self._optional, self._formats, untied=self.untied)
        view._prefix = f"{self._prefix}{prefix}."
        return view

    def __contains__(self, name: str) -> bool:
        return any(re.search(pattern, self._prefix + name) for pattern in self._optional)

    def matrix(self, name: str, n_out: int, n_in: int, *, rows: Rows | None = None, transposed: bool = False) -> Weight:
        name = self._prefix + name
        fmt = next((fmt for pattern, fmt in self._formats.items() if re.search(pattern, name)), "BF16")
        return Weight(name, (n_out, n_in), fmt, np.broadcast_to(np.uint8(0), n_out * FORMATS[fmt].row_bytes(n_in)))

    def turned_matrix(self, name: str, n_in: int, n_out: int, *, rows: range) -> Weight:
        return self.matrix(name, n_out, n_in)

    def experts(
        self, name: str, count: int, n_out: int, n_in: int, *, rows: Rows | None = None, transposed: bool = False
    ) -> Experts:
        return Experts((self.matrix(name, n_out, n_in),) * count)

    def vector(self, name: str, n: int, *, rows: Rows | None = None) -> Weight:
        return Weight(self._prefix + name, (n,), "F32", np.broadcast_to(np.uint8(0), 4 * n))

    def array(self, name: str, *shape: int) -> NDArray[np.float32]:
        return np.full(shape, 0.5, np.float32)


def graph_of(description: Mapping[str, Any]) -> tuple[str, Graph]:
    """(family, graph) of a model described by its config, the optional tensors it has, and formats of its matrices."""
    values = description["config"]
    config = Config(values, container="safetensors", path="")
    name, family = architectures.find_family(values, "")
    graph = Graph()
    optional, formats = description.get("optional_tensors", []), description.get("formats", {})
    family.build(graph, config, ShapesOnly(optional, formats, untied=values.get("tie_word_embeddings") is False))
    config.refuse_unread()
    return name, graph


@functools.cache
def graphs() -> list[tuple[str, str, Graph]]:
    """(name, family, graph) of every model that has committed maps."""
    found = [(path.stem, *graph_of(json.loads(path.read_text()))) for path in sorted(CONFIGS.glob("*.json"))]
    for package in packages.installed_models():
        path = package.path(progress=False)
        architecture = architectures.record(open_checkpoint(path))
        found.append((path.stem.lower(), architecture.family, architecture.graph))
    return found


def maps() -> Iterator[tuple[str, str]]:
    """(file name, text) of every committed map."""
    for name, family, graph in graphs():
        for target, make in TARGETS.items():
            plans = [
                lower(graph, make(target), row_class, kv_dtype=cache_dtype(graph, make(target)), allow_missing=True)
                for row_class in make(target).row_classes
            ]
            yield f"{name}.{target}.txt", "\n".join(f"{name} ({family}): {show.as_text(plan)}" for plan in plans)


def write() -> None:
    """Replaces the committed maps by those of today."""
    made = list(maps())  # before the old ones go, for it may fail
    for old in MAPS.glob("*.txt"):
        old.unlink()
    for file, text in made:
        (MAPS / file).write_text(text)
        sys.stdout.write(f"{file}\n")


if __name__ == "__main__":
    write()
