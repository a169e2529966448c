"""Norms, projections, residuals and the head."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ...errors import CorruptFile
from ...graph import Graph, Value, Weight
from ..config import Config
from ..weights import Rows, Weights

ACTIVATIONS = {
    "silu": "silu",
    "swish": "silu",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu": "gelu_erf",
    "relu": "relu",
    "relu2": "relu2",
}
"""`hidden_act` of a config -> activation of `csrc/params/activation.h`."""


def layer_types(c: Config, usual: list[str]) -> list[str]:
    """Whether each layer has a window, "sliding_attention", or none, "full_attention"; `usual` where nothing says."""
    kinds = ("full_attention", "sliding_attention")
    return c.choices("layer_types", {kind: kind for kind in kinds}, usual, count=len(usual))


def windows(layer_types: Sequence[str], window: int) -> list[int]:
    """Window of each layer: `window` for "sliding_attention", 0 (unlimited) for others."""
    return [window if layer_type == "sliding_attention" else 0 for layer_type in layer_types]


def whole(n: int, parts: int, what: str, *, path: str) -> int:
    """n / parts. Raises CorruptFile where that is no whole number."""
    if n % parts:
        raise CorruptFile(f"the config's {what}", path=path, expected=f"a multiple of {parts}", found=str(n))
    return n // parts


@dataclass(frozen=True)
class Norm:
    """How a family normalises: variance floor, and what is added to stored weights (1 where the file holds w - 1).

    `kind` is "rms", or "layer" where the mean is subtracted and a bias may follow.
    """

    eps: float
    weight_offset: float = 0.0
    kind: Literal["rms", "layer"] = "rms"

    def __call__(
        self,
        g: Graph,
        x: Value,
        w: Weights,
        name: str | None,
        *,
        groups: int = 1,
        shared: bool = True,
        stage: str | None = None,
    ) -> Value:
        """Normalises x with `<name>.weight` and, where the file has one, `<name>.bias`; without a name, with neither.

        `groups` parts of a row are normalised alone, with the same weights if `shared`, else each with its own.
        """
        width = whole(x.width, groups, "values in the parts of a norm", path=w.path)
        with g.stage(stage) if stage else nullcontext():
            if name is None:
                return self._normalise(g, x, None, None, groups)
            if groups > 1 and not shared:
                plain = self._normalise(g, x, None, None, groups)
                return g.scale_columns(plain, w.vector(f"{name}.weight", x.width))
            bias = w.optional_vector(f"{name}.bias", width) if self.kind == "layer" else None
            return self._normalise(g, x, w.vector(f"{name}.weight", width), bias, groups)

    def by_constant(self, g: Graph, x: Value, weight: NDArray[np.floating[Any]], *, groups: int = 1) -> Value:
        """Normalises x with a weight made at load."""
        return self._normalise(g, x, g.constant("norm", weight), None, groups)

    def _normalise(self, g: Graph, x: Value, weight: Weight | None, bias: Weight | None, groups: int) -> Value:
        offset = 0.0 if weight is None else self.weight_offset
        if self.kind == "rms":
            return g.rms_norm(x, weight, self.eps, weight_offset=offset, groups=groups)
        return g.layer_norm(x, weight, bias, self.eps, weight_offset=offset, groups=groups)


def linear(
    g: Graph, x: Value, w: Weights, name: str, n_out: int, *, rows: Rows | None = None, transposed: bool = False
) -> Value:
    """x times `<name>.weight` plus, where the file has one, `<name>.bias`; `rows` and `transposed` as in Weights."""
    weight = w.matrix(f"{name}.weight", n_out, x.width, rows=rows, transposed=transposed)
    return g.linear(x, weight, w.optional_vector(f"{name}.bias", n_out, rows=rows))


def residual(g: Graph, x: Value, mixed: Value, stage: str, *, factor: float = 1.0) -> Value:
    """x + factor * mixed."""
    with g.stage(stage):
        return g.add(x, g.scale(mixed, factor))


def head(
    g: Graph,
    x: Value,
    w: Weights,
    *,
    norm: Norm,
    embedding: Weight,
    norm_name: str | None = "model.norm",
    name: str = "lm_head",
    scale: float = 1.0,
    softcap: float = 0.0,
) -> None:
    """Final norm and logits of the wanted rows, times `scale`.

    The embedding is the head where there is no tensor `name`, unless the config says that they are not tied.
    """
    with g.stage("logits"):
        x = norm(g, g.take_rows(x), w, norm_name)
        own = w.untied or f"{name}.weight" in w
        matrix = w.matrix(f"{name}.weight", *embedding.shape) if own else embedding
        logits = g.linear(x, matrix, w.optional_vector(f"{name}.bias", embedding.shape[0]))
        g.output = g.softcap(g.scale(logits, scale), softcap)
