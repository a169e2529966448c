"""Rotary position embedding: every rule for the angles, computed once at load in float64.

A rule turns RoPE parameters (the `rope_parameters` or `rope_scaling` object of a config) into radians per position for
each rotated pair and a factor on cosines and sines. Rules and key names follow transformers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UnsupportedArchitecture
from ..graph import Graph, Value
from .config import Config

Frequencies = NDArray[np.float64]
Parameters = dict[str, Any]

# Longest length that longrope and dynamic take from the config itself where the parameters lack it.
_ORIGINAL = "original_max_position_embeddings"


def parameters(c: Config, *, layer_type: str | None = None, theta: float = 10000.0, partial: float = 1.0) -> Parameters:
    """The RoPE parameters of a config, new form (`rope_parameters`) or old (`rope_theta`, `rope_scaling`).

    `layer_type` selects an entry where they are kept per type of layer; `theta` and `partial`, the rotated part of a
    head, are the family's defaults.
    """
    found = c.get("rope_parameters") or c.get("rope_scaling") or {}
    chosen = dict(found.get(layer_type, found))
    chosen.setdefault("rope_theta", c.number("rope_theta", theta))
    chosen.setdefault("partial_rotary_factor", c.number("partial_rotary_factor", partial))
    chosen["rope_type"] = chosen.pop("rope_type", None) or chosen.get("type") or "default"
    chosen.pop("type", None)
    chosen["max_position_embeddings"] = c.integer("max_position_embeddings", 0)
    if c.get(_ORIGINAL) is not None:
        chosen.setdefault(_ORIGINAL, c.integer(_ORIGINAL))
    return {key: value for key, value in chosen.items() if value is not None}


def table(
    g: Graph, rope: Mapping[str, Any], *, head_dim: int, divisors: Frequencies | None, path: str, name: str
) -> Value:
    """The step's angles under the parameters' rule -> [tokens, 2 * pairs].

    `divisors` of the frequencies [pairs] are those that a file holds instead of a rule. Raises UnsupportedArchitecture
    for a rule or a parameter that is not understood.
    """
    kind = rope["rope_type"]
    if kind not in _KEYS:
        raise UnsupportedArchitecture("rope_type", path=path, expected=" or ".join(map(repr, _KEYS)), found=repr(kind))
    unknown = set(rope) - {*_COMMON_KEYS, *_KEYS[kind]}
    if unknown:
        raise UnsupportedArchitecture(
            f"parameters of rope_type {kind!r} not understood: {', '.join(sorted(unknown))}", path=path
        )
    rotated = int(head_dim * rope["partial_rotary_factor"])
    base = rope["rope_theta"] ** -(np.arange(0, rotated, 2, dtype=np.float64) / rotated)
    if kind in _TABLES:
        return _TABLES[kind](g, base, rope, name)
    values, scale = _RULES[kind](base, rope, head_dim)
    frequencies = g.constant(name, values if divisors is None else values / divisors)
    if "mrope_section" not in rope:
        return g.rope_table(frequencies, scale)
    axes = _axes(rope["mrope_section"], len(values), interleaved=rope.get("mrope_interleaved", False))
    return g.sectioned_rope_table(frequencies, g.constant(f"{name}, axes", axes), scale)


def yarn_mscale(factor: float, weight: float) -> float:
    """The growth of attention scores that YaRN prescribes for a context `factor` times the original."""
    return 0.1 * weight * math.log(factor) + 1.0 if factor > 1 else 1.0


def _default(base: Frequencies, rope: Mapping[str, Any], head_dim: int) -> tuple[Frequencies, float]:
    return base, 1.0


def _linear(base: Frequencies, rope: Mapping[str, Any], head_dim: int) -> tuple[Frequencies, float]:
    return base / rope["factor"], 1.0


def _proportional(base: Frequencies, rope: Mapping[str, Any], head_dim: int) -> tuple[Frequencies, float]:
    """Pairs over the whole head, exponents too; only the first part of them turns."""
    values = rope["rope_theta"] ** -(np.arange(0, head_dim, 2, dtype=np.float64) / head_dim)
    values[int(rope["partial_rotary_factor"] * head_dim // 2) :] = 0.0
    return values / rope.get("factor", 1.0), 1.0


def _llama3(base: Frequencies, rope: Mapping[str, Any], head_dim: int) -> tuple[Frequencies, float]:
    """Long wavelengths are stretched, short ones kept, those between interpolated (Llama 3.1)."""
    turns = rope[_ORIGINAL] * base / (2 * math.pi)
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    keep = np.clip((turns - low) / max(high - low, 1e-9), 0.0, 1.0)  # Llama 4 has no wavelengths between
    return base * (keep + (1 - keep) / rope["factor"]), 1.0


def _yarn(base: Frequencies, rope: Mapping[str, Any], head_dim: int) -> tuple[Frequencies, float]:
    """Interpolation by wavelength with a ramp over dimensions, and an attention factor (Peng et al. 2023)."""
    n = 2 * len(base)
    original = rope.get(_ORIGINAL) or rope["max_position_embeddings"]
    factor = rope.get("factor") or rope["max_position_embeddings"] / original

    def dimension(turns: float) -> float:
        return n * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(rope["rope_theta"]))

    low, high = dimension(rope.get("beta_fast") or 32.0), dimension(rope.get("beta_slow") or 1.0)
    if rope.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, n - 1)
    ramp = np.clip((np.arange(n // 2) - low) / (max(high - low, 0.001)), 0.0, 1.0)

    attention = rope.get("attention_factor")
    if attention is None:
        scale, all_dims = rope.get("mscale"), rope.get("mscale_all_dim")
        of_scale = yarn_mscale(factor, scale) / yarn_mscale(factor, all_dims) if scale and all_dims else None
        attention = of_scale or yarn_mscale(factor, 1.0)
    return base / factor * ramp + base * (1 - ramp), float(attention)


def _long_table(g: Graph, base: Frequencies, rope: Mapping[str, Any], name: str) -> Value:
    """Frequencies divided by one list of factors for short sequences, another for long ones (Ding et al. 2024)."""
    original = rope[_ORIGINAL]
    factor = rope.get("factor") or rope["max_position_embeddings"] / original
    scale = rope.get("attention_factor")
    if scale is None:
        scale = math.sqrt(1 + math.log(factor) / math.log(original)) if factor > 1 else 1.0
    return g.long_rope_table(
        g.constant(f"{name}, short", base / np.asarray(rope["short_factor"])),
        g.constant(f"{name}, long", base / np.asarray(rope["long_factor"])),
        threshold=original,
        short_scale=rope.get("short_mscale", scale),
        long_scale=rope.get("long_mscale", scale),
    )


def _dynamic_table(g: Graph, base: Frequencies, rope: Mapping[str, Any], name: str) -> Value:
    """A base that grows with the sequence's length or, where there is an `alpha`, is stretched by it once for all."""
    if "alpha" in rope:
        n = len(base)
        return g.rope_table(g.constant(name, base * rope["alpha"] ** (-np.arange(n) / (n - 1))))
    threshold = rope["max_position_embeddings"]
    return g.dynamic_rope_table(g.constant(name, base), factor=rope["factor"], threshold=threshold)


def _axes(sections: list[int], pairs: int, *, interleaved: bool) -> Frequencies:
    """Axis of position of each pair: sections one after another, or height and width in every third pair."""
    if not interleaved:
        return np.repeat(np.arange(len(sections), dtype=np.float64), sections)
    axes = np.zeros(pairs)
    for axis in (1, 2):
        axes[axis : 3 * sections[axis] : 3] = axis
    return axes


_COMMON_KEYS = (
    "rope_type", "rope_theta", "partial_rotary_factor", "max_position_embeddings", _ORIGINAL, "mrope_section",
    "mrope_interleaved",
)  # fmt: skip
_LONG_KEYS = ("factor", "short_factor", "long_factor", "attention_factor", "short_mscale", "long_mscale")
_KEYS: dict[str, tuple[str, ...]] = {
    "default": (),
    "mrope": (),
    "linear": ("factor",),
    "dynamic": ("factor", "alpha"),
    "proportional": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor"),
    "yarn": ("factor", "beta_fast", "beta_slow", "truncate", "attention_factor", "mscale", "mscale_all_dim"),
    "longrope": _LONG_KEYS,
    "su": _LONG_KEYS,
}
"""Parameters that each `rope_type` understands beside the common ones."""

_RULES: dict[str, Callable[[Frequencies, Mapping[str, Any], int], tuple[Frequencies, float]]] = {
    "default": _default,
    "mrope": _default,
    "linear": _linear,
    "proportional": _proportional,
    "llama3": _llama3,
    "yarn": _yarn,
}
"""Rules that do not depend on the length of a sequence."""

_TABLES: dict[str, Callable[[Graph, Frequencies, Mapping[str, Any], str], Value]] = {
    "dynamic": _dynamic_table,
    "longrope": _long_table,
    "su": _long_table,
}
"""Rules that do."""
