"""Rotary position embedding: every rule for the angles, computed once at load in float64.

A rule turns RoPE parameters (the `rope_parameters` or `rope_scaling` object of a config) into radians per position for
each rotated pair and a factor on cosines and sines. Rules and key names follow transformers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from ..errors import CorruptFile, UnsupportedArchitecture
from ..graph import Graph, Value, Weight
from .config import LARGEST, Config

Frequencies = NDArray[np.float64]

# The longest text, and the one that frequencies were made for before they were stretched.
_LENGTH, _ORIGINAL = "max_position_embeddings", "original_max_position_embeddings"


def parameters(
    c: Config,
    *,
    layer_type: str | None = None,
    theta: float = 10000.0,
    partial: float = 1.0,
    applied: Iterable[str] = (),
) -> Config:
    """The RoPE parameters of a config, new form (`rope_parameters`) or old (`rope_theta`, `rope_scaling`).

    `layer_type` selects an entry where they are kept per type of layer; `theta` and `partial`, the rotated part of a
    head, are the family's defaults. `applied` are left out.
    """
    found = c.section("rope_parameters", {}) or c.section("rope_scaling", {})
    if layer_type is not None and found.get(layer_type) is not None:
        found = found.section(layer_type)
    chosen = {key: found[key] for key in found if key not in applied and found.get(key) is not None}
    chosen.setdefault("rope_theta", c.number("rope_theta", theta))
    chosen.setdefault("partial_rotary_factor", c.number("partial_rotary_factor", partial))
    chosen["rope_type"] = chosen.pop("rope_type", None) or chosen.get("type") or "default"
    chosen.pop("type", None)
    if c.get(_LENGTH) is not None:
        chosen[_LENGTH] = c.integer(_LENGTH, 0)
    if c.get(_ORIGINAL) is not None:
        chosen.setdefault(_ORIGINAL, c.integer(_ORIGINAL))
    return Config(chosen, container=c.container, path=c.path)


def table(g: Graph, rope: Config, *, head_dim: int, divisors: Frequencies | None, name: str) -> Value:
    """The step's angles under the parameters' rule -> [tokens, 2 * pairs].

    `divisors` of the frequencies [pairs] are those that a file holds instead of a rule. Raises UnsupportedArchitecture
    for a rule or a parameter that is not understood, CorruptFile for numbers that no rotation has.
    """
    understood, kind = rope.choice("rope_type", _KEYS), rope["rope_type"]
    unknown = set(rope) - {*_COMMON_KEYS, *understood}
    if unknown:
        raise UnsupportedArchitecture(
            f"parameters of rope_type {kind!r} not understood: {', '.join(sorted(unknown))}", path=rope.path
        )
    rotated = int(head_dim * rope.number("partial_rotary_factor"))
    if rotated % 2 or not 0 < rotated <= head_dim:
        expected = f"an even number of values, at most {head_dim}"
        raise CorruptFile("the rotated part of a head", path=rope.path, expected=expected, found=str(rotated))
    base = rope.number("rope_theta", above=1.0) ** -(np.arange(0, rotated, 2, dtype=np.float64) / rotated)
    if kind in _TABLES:
        return _TABLES[kind](g, base, rope, name)
    values, scale = _RULES[kind](base, rope, head_dim)
    frequencies = _constant(g, rope, name, values if divisors is None else values / divisors)
    if rope.get("mrope_section") is None:
        return g.rope_table(frequencies, scale)
    return g.sectioned_rope_table(frequencies, g.constant(f"{name}, axes", _axes(rope, len(values))), scale)


def _constant(g: Graph, rope: Config, name: str, frequencies: Frequencies) -> Weight:
    """The frequencies as a weight. Raises CorruptFile where factors have made them infinite or no numbers."""
    if not np.all(np.abs(frequencies) <= np.finfo(np.float32).max):
        raise CorruptFile(f"the config's or the file's factors of {name}", path=rope.path, expected="positive numbers")
    return g.constant(name, frequencies)


def yarn_mscale(factor: float, weight: float) -> float:
    """The growth of attention scores that YaRN prescribes for a context `factor` times the original."""
    return 0.1 * weight * math.log(factor) + 1.0 if factor > 1 else 1.0


def _default(base: Frequencies, rope: Config, head_dim: int) -> tuple[Frequencies, float]:
    return base, 1.0


def _linear(base: Frequencies, rope: Config, head_dim: int) -> tuple[Frequencies, float]:
    return base / rope.number("factor", above=0.0), 1.0


def _proportional(base: Frequencies, rope: Config, head_dim: int) -> tuple[Frequencies, float]:
    """Pairs over the whole head, exponents too; only the first part of them turns."""
    values = rope.number("rope_theta") ** -(np.arange(0, head_dim, 2, dtype=np.float64) / head_dim)
    values[int(rope.number("partial_rotary_factor") * head_dim // 2) :] = 0.0
    return values / rope.number("factor", 1.0, above=0.0), 1.0


def _llama3(base: Frequencies, rope: Config, head_dim: int) -> tuple[Frequencies, float]:
    """Long wavelengths are stretched, short ones kept, those between interpolated (Llama 3.1)."""
    turns = rope.number(_ORIGINAL, above=0.0) * base / (2 * math.pi)
    low, high = rope.number("low_freq_factor"), rope.number("high_freq_factor")
    keep = np.clip((turns - low) / max(high - low, 1e-9), 0.0, 1.0)  # Llama 4 has no wavelengths between
    return base * (keep + (1 - keep) / rope.number("factor", above=0.0)), 1.0


def _yarn(base: Frequencies, rope: Config, head_dim: int) -> tuple[Frequencies, float]:
    """Interpolation by wavelength with a ramp over dimensions, and an attention factor (Peng et al. 2023)."""
    n = 2 * len(base)
    original, factor = _original_and_factor(rope)

    def dimension(turns: float) -> float:
        return n * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(rope.number("rope_theta")))

    low = dimension(rope.number("beta_fast", 32.0, above=0.0))
    high = dimension(rope.number("beta_slow", 1.0, above=0.0))
    if rope.flag("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, n - 1)
    ramp = np.clip((np.arange(n // 2) - low) / (max(high - low, 0.001)), 0.0, 1.0)

    scale, all_dims = rope.number("mscale", 0.0), rope.number("mscale_all_dim", 0.0)
    of_scale = yarn_mscale(factor, scale) / yarn_mscale(factor, all_dims) if scale and all_dims else None
    attention = rope.number("attention_factor", of_scale or yarn_mscale(factor, 1.0))
    return base / factor * ramp + base * (1 - ramp), attention


def _original_and_factor(rope: Config) -> tuple[float, float]:
    """The length before stretching, which may be all that a config says, and how many times it is stretched."""
    original = rope.number(rope.present(_ORIGINAL, _LENGTH), above=1.0, below=LARGEST)
    if rope.get("factor") is None:
        return original, rope.number(_LENGTH, above=0.0) / original
    return original, rope.number("factor", above=0.0)


def _long_table(g: Graph, base: Frequencies, rope: Config, name: str) -> Value:
    """Frequencies divided by one list of factors for short sequences, another for long ones (Ding et al. 2024)."""
    original, factor = _original_and_factor(rope)
    of_factor = math.sqrt(1 + math.log(factor) / math.log(original)) if factor > 1 else 1.0
    scale = rope.number("attention_factor", of_factor)
    return g.long_rope_table(
        _constant(g, rope, f"{name}, short", base / rope.numbers("short_factor", count=len(base))),
        _constant(g, rope, f"{name}, long", base / rope.numbers("long_factor", count=len(base))),
        threshold=int(original),
        short_scale=rope.number("short_mscale", scale),
        long_scale=rope.number("long_mscale", scale),
    )


def _dynamic_table(g: Graph, base: Frequencies, rope: Config, name: str) -> Value:
    """A base that grows with the sequence's length or, where there is an `alpha`, is stretched by it once for all."""
    if rope.get("alpha") is not None:
        n = len(base)
        return g.rope_table(
            _constant(g, rope, name, base * rope.number("alpha", above=0.0) ** (-np.arange(n) / (n - 1)))
        )
    factor, threshold = rope.number("factor", above=0.0), rope.integer(_LENGTH)
    return g.dynamic_rope_table(_constant(g, rope, name, base), factor=factor, threshold=threshold)


def _axes(rope: Config, pairs: int) -> Frequencies:
    """Axis of position of each pair: sections one after another, or height and width in every third pair."""
    sections = rope.integers("mrope_section")
    if len(sections) > 3 or sum(sections) != pairs:
        expected = f"up to three numbers whose sum is {pairs}"
        raise CorruptFile("config key 'mrope_section'", path=rope.path, expected=expected, found=str(sections))
    if not rope.flag("mrope_interleaved", False):
        return np.repeat(np.arange(len(sections), dtype=np.float64), sections)
    axes = np.zeros(pairs)
    for axis in range(1, len(sections)):
        axes[axis : 3 * sections[axis] : 3] = axis
    return axes


_COMMON_KEYS = (
    "rope_type", "rope_theta", "partial_rotary_factor", _LENGTH, _ORIGINAL, "mrope_section",
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

_RULES: dict[str, Callable[[Frequencies, Config, int], tuple[Frequencies, float]]] = {
    "default": _default,
    "mrope": _default,
    "linear": _linear,
    "proportional": _proportional,
    "llama3": _llama3,
    "yarn": _yarn,
}
"""Rules that do not depend on the length of a sequence."""

_TABLES: dict[str, Callable[[Graph, Frequencies, Config, str], Value]] = {
    "dynamic": _dynamic_table,
    "longrope": _long_table,
    "su": _long_table,
}
"""Rules that do."""
