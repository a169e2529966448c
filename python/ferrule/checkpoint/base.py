"""What a GGUF file and a Hugging Face directory look like to the rest of ferrule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class StoredTensor:
    """A tensor as the file holds it: `shape` is row-major (GGUF's reversed), `data` its bytes, mapped."""

    name: str
    shape: tuple[int, ...]
    format: str  # a key of formats.FORMATS: "F32", "BF16", "Q4_K" ...
    data: NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """One model on disk.

    `config` uses Hugging Face's keys and `tensors` Hugging Face's names for every container: `gguf_names.py` maps
    GGUF's. `metadata` is what GGUF stores about the tokenizer and generation ({} for safetensors).
    """

    path: Path
    container: Literal["gguf", "safetensors"]
    config: Mapping[str, Any]
    tensors: Mapping[str, StoredTensor]
    metadata: Mapping[str, Any] = field(default_factory=dict)
    generation_config: Mapping[str, Any] = field(default_factory=dict)
