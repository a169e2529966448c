"""Rotary frequencies of every scaling rule, computed once at load in float64.

A rule turns RoPE parameters (the `rope_parameters` or `rope_scaling` object of a config) into radians per position for
each rotated pair and a factor on cosines and sines. Rules and key names follow transformers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UnsupportedArchitecture
from .config import Config

Frequencies = NDArray[np.float64]


def parameters(c: Config, *, layer_type: str | None = None, theta: float = 10000.0) -> dict[str, Any]:
    """The RoPE parameters of a config, new form (`rope_parameters`) or old (`rope_theta`, `rope_scaling`).

    `layer_type` selects an entry where they are kept per type of layer; `theta` is the family's default base.
    """
    new = c.get("rope_parameters")
    if new is not None:
        chosen = dict(new[layer_type] if layer_type in new else new)
    else:
        scaling = c.get("rope_scaling") or {}
        chosen = dict(scaling[layer_type] if layer_type in scaling else scaling)
    chosen.setdefault("rope_theta", c.number("rope_theta", theta))
    chosen.setdefault("partial_rotary_factor", c.number("partial_rotary_factor", 1.0))
    chosen["rope_type"] = chosen.pop("rope_type", None) or chosen.pop("type", None) or "default"
    chosen.pop("type", None)
    return chosen


def frequencies(
    rope: Mapping[str, Any], *, head_dim: int, max_positions: int, path: str
) -> tuple[Frequencies, float]:
    """(radians per position of each pair, factor on cosines and sines)."""
    rule, keys = _RULES.get(rope["rope_type"], (None, ()))
    if rule is None:
        raise UnsupportedArchitecture(
            "rope_type", path=path, expected=" or ".join(map(repr, _RULES)), found=repr(rope["rope_type"])
        )
    unknown = set(rope) - {"rope_type", "rope_theta", "partial_rotary_factor", *keys}
    if unknown:
        raise UnsupportedArchitecture(
            f"RoPE parameters not understood for rope_type {rope['rope_type']!r}: {', '.join(sorted(unknown))}", path=path
        )
    n_rotated = int(head_dim * rope["partial_rotary_factor"])
    base = rope["rope_theta"] ** -(np.arange(0, n_rotated, 2, dtype=np.float64) / n_rotated)
    return rule(base, rope, n_rotated, max_positions)


def _default(base: Frequencies, rope: Mapping[str, Any], n: int, max_positions: int) -> tuple[Frequencies, float]:
    return base, 1.0


def _linear(base: Frequencies, rope: Mapping[str, Any], n: int, max_positions: int) -> tuple[Frequencies, float]:
    return base / rope["factor"], 1.0


def _llama3(base: Frequencies, rope: Mapping[str, Any], n: int, max_positions: int) -> tuple[Frequencies, float]:
    """Long wavelengths are stretched, short ones kept, those between interpolated (Llama 3.1)."""
    turns = rope["original_max_position_embeddings"] * base / (2 * math.pi)
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    keep = np.clip((turns - low) / (high - low), 0.0, 1.0)
    return base * (keep + (1 - keep) / rope["factor"]), 1.0


def _yarn(base: Frequencies, rope: Mapping[str, Any], n: int, max_positions: int) -> tuple[Frequencies, float]:
    """Interpolation by wavelength with a ramp over dimensions, and an attention factor (Peng et al. 2023)."""
    original = rope.get("original_max_position_embeddings") or max_positions
    factor = rope.get("factor") or max_positions / original

    def dimension(turns: float) -> float:
        return n * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(rope["rope_theta"]))

    low, high = dimension(rope.get("beta_fast") or 32.0), dimension(rope.get("beta_slow") or 1.0)
    if rope.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, n - 1)
    ramp = np.clip((np.arange(n // 2) - low) / (max(high - low, 0.001)), 0.0, 1.0)

    def mscale(weight: float) -> float:
        return 0.1 * weight * math.log(factor) + 1.0 if factor > 1 else 1.0

    attention = rope.get("attention_factor")
    if attention is None:
        scale, all_dims = rope.get("mscale"), rope.get("mscale_all_dim")
        attention = mscale(scale) / mscale(all_dims) if scale and all_dims else mscale(1.0)
    return base / factor * ramp + base * (1 - ramp), float(attention)


_LLAMA3_KEYS = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
_YARN_KEYS = (
    "factor", "original_max_position_embeddings", "beta_fast", "beta_slow", "truncate", "attention_factor", "mscale",
    "mscale_all_dim",
)  # fmt: skip
_RULES: dict[str, tuple[Any, tuple[str, ...]]] = {
    "default": (_default, ()),
    "linear": (_linear, ("factor",)),
    "llama3": (_llama3, _LLAMA3_KEYS),
    "yarn": (_yarn, _YARN_KEYS),
}
