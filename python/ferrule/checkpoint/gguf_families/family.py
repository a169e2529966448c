"""What a GGUF architecture says of itself, and the orders that converters give rows of matrices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..gguf_adjust import Config, Tensors

RowOrder = Callable[[int, Mapping[str, Any]], NDArray[np.intp]]


@dataclass(frozen=True)
class Family:
    """How one GGUF architecture differs from the shared tables.

    `tensors`: stems, or whole names, GGUF -> Hugging Face. `keys`: metadata keys -> config keys, "" for keys that say
    nothing more. `config`: what the architecture implies and the file does not say. `adjust(config, tensors)` does what
    is more than renaming, `tensors` being under Hugging Face's names. `rows`: last part of a matrix's name -> the order
    that converters give its n rows, as the row of Hugging Face's that each of them is, from n and the config.
    `converted`: matrices, by a pattern of Hugging Face's names, of which converters change more than that order.
    """

    model_type: str
    tensors: Mapping[str, str] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    required: tuple[str, ...] = ("block_count", "embedding_length")
    without: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # absent key -> config that follows from it
    adjust: Callable[[Config, Tensors], None] | None = None
    rows: Mapping[str, RowOrder] = field(default_factory=dict)
    converted: str | None = None


LAYER = "model.layers.{}"


def under(prefix: str, table: Mapping[str, str]) -> dict[str, str]:
    """The table for tensors of a layer, GGUF's names after "blk.{}.", Hugging Face's after `prefix`."""
    return {f"blk.{{}}.{gguf}": f"{prefix}.{hf}" for gguf, hf in table.items()}


def neighbours(heads: str) -> RowOrder:
    """The halves of each head interleaved, so that values that turn together are neighbours."""
    return lambda n, config: np.arange(n).reshape(config[heads], 2, -1).swapaxes(1, 2).reshape(-1)


def by_parts(heads: str, kv_heads: str) -> RowOrder:
    """All queries, keys, values, where Hugging Face has the queries, key and value of each key/value head together."""

    def order(n: int, config: Mapping[str, Any]) -> NDArray[np.intp]:
        group = config[heads] // config[kv_heads]
        grouped = np.arange(n).reshape(config[kv_heads], group + 2, -1)
        return np.concatenate([part.reshape(-1) for part in np.split(grouped, [group, group + 1], axis=1)])

    return order


TURNED = {"q_proj": neighbours("num_attention_heads"), "k_proj": neighbours("num_key_value_heads")}
