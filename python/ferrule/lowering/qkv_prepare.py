"""The fusion of what lies between the projections of queries, keys and values, the cache, and attention."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..graph import CacheLayer, Op, Operand, Value
from .op_list import Ops, makers_of, users_of, value_of


@dataclass(frozen=True)
class _Chain:
    """What a projection's result, `source`, goes through on its way: at most one op of each kind, the last first."""

    source: Value
    steps: Mapping[str, Op]


@dataclass(frozen=True)
class _Layer:
    """An attention op, the append to its cache, and the `chains` that lead to them, by "q", "k" and "v".

    Where the cache is an earlier layer's there is no append, and a chain of queries alone. `norm_last`: queries and
    keys are rotated before they are normalised.
    """

    attention: Op
    append: Op | None
    norm_last: bool
    chains: Mapping[str, _Chain]

    @property
    def steps(self) -> list[Op]:
        """Those of all chains."""
        return [op for chain in self.chains.values() for op in chain.steps.values()]

    def of_kind(self, kind: str) -> dict[str, Op]:
        """The steps of that kind, by chain."""
        return {name: chain.steps[kind] for name, chain in self.chains.items() if kind in chain.steps}


def qkv_prepare(ops: Ops, *, whole_rows: bool = False) -> Ops:
    """Limits, norms and rotations from the projections to the cache, and the append itself, become one launch.

    So does what queries alone need where the cache is an earlier layer's. Norms span a head or, with `whole_rows`, all
    heads of a row.
    """
    appends = {op.operands["cache"]: op for op in ops if op.kind == "kv_append"}
    finder = _Finder(ops, whole_rows=whole_rows)
    rewritten: dict[Op, Op] = {}
    removed: set[Op] = set()
    for attention in ops:
        cache = attention.operands.get("cache")
        is_attention = attention.kind in ("attention", "chunked_attention")
        if not is_attention or not isinstance(cache, CacheLayer) or cache.kind != "keys_values":
            continue
        layer = finder.layer(attention, appends.pop(cache, None), cache)
        attributes = _attributes(layer, cache)
        if attributes is None or not finder.saves_launches(layer):
            continue
        place = layer.append or layer.steps[0]
        removed.update(op for op in layer.steps if op is not place)
        # Where norms span heads, a row's heads all read the row, so that none may change it.
        out = value_of(attention, "q") if attributes["whole_rows"] else None
        stage = "qk norm, rope, kv append"
        rewritten[place] = Op("qkv_prepare", _operands(layer), attributes, out, stage, attention.layer)
        if out is None:
            rewritten[attention] = replace(attention, operands={**attention.operands, "q": layer.chains["q"].source})
    return [rewritten.get(op, op) for op in ops if op not in removed]


class _Finder:
    """Walks back from attention and appends to the projections."""

    def __init__(self, ops: Ops, *, whole_rows: bool) -> None:
        self._users, self._makers = users_of(ops), makers_of(ops)
        self._whole_rows = whole_rows

    def layer(self, attention: Op, append: Op | None, cache: CacheLayer) -> _Layer:
        q = value_of(attention, "q")
        norm_last = self._is_rotated_then_normed(q)
        kinds = ("rms_norm", "rope", "clamp") if norm_last else ("rope", "rms_norm", "clamp")
        chains = {"q": self._chain(q, kinds, cache.head_dim, whole_rows=self._whole_rows)}
        if append is not None:
            k, v = value_of(append, "k"), value_of(append, "v")
            chains["k"] = self._chain(k, kinds, cache.head_dim, whole_rows=self._whole_rows)
            chains["v"] = self._chain(v, ("rms_norm", "clamp"), cache.v_head_dim, whole_rows=False)
        return _Layer(attention, append, norm_last, chains)

    def saves_launches(self, layer: _Layer) -> bool:
        """Whether there would be fewer; no launch may change queries in place that others read, too."""
        is_shared = len(self._users[layer.chains["q"].source]) != 1
        return not is_shared and (layer.append is not None or len(layer.steps) > 1)

    def _is_rotated_then_normed(self, value: Value) -> bool:
        norm = self._makers.get(value)
        if norm is None or norm.kind != "rms_norm":
            return False
        rotation = self._makers.get(value_of(norm, "x"))
        return rotation is not None and rotation.kind == "rope"

    def _chain(self, value: Value, kinds: tuple[str, ...], head_dim: int, *, whole_rows: bool) -> _Chain:
        """At most one op of each kind, the last kind first, while nobody else reads the results."""
        steps: dict[str, Op] = {}
        for kind in kinds:
            op = self._makers.get(value)
            if op is None or op.kind != kind or len(self._users[value]) != 1:
                continue
            if kind == "rms_norm" and _spans_heads(op, head_dim) and not (whole_rows and op.attributes["groups"] == 1):
                continue
            steps[kind], value = op, value_of(op, "x")
        return _Chain(value, steps)


def _attributes(layer: _Layer, cache: CacheLayer) -> dict[str, Any] | None:
    """Those of the launch; None where the chains differ in what it does alike to all of them."""
    norms, rotations, clamps = (layer.of_kind(kind) for kind in ("rms_norm", "rope", "clamp"))
    limits = {clamps[name].attributes["limit"] if name in clamps else 0.0 for name in layer.chains}
    pairings = {(op.attributes["pairing"], op.operands["table"]) for op in rotations.values()}
    settings = {(op.attributes["eps"], op.attributes["weight_offset"]) for op in norms.values()}
    if max(len(limits), len(pairings), len(settings)) > 1:
        return None
    if rotations and rotations.keys() != layer.chains.keys() - {"v"}:
        return None
    of_rows = [op for name, op in norms.items() if name != "v"]
    whole_rows = any(_spans_heads(op, cache.head_dim) for op in of_rows)
    if whole_rows and (layer.norm_last or any(op.attributes["groups"] != 1 for op in of_rows)):
        return None
    eps, weight_offset = settings.pop() if settings else (0.0, 0.0)
    return {
        "heads": layer.attention.attributes["heads"],
        "head_dim": cache.head_dim,
        "pairing": pairings.pop()[0] if pairings else "half",
        "eps": eps,
        "weight_offset": weight_offset,
        "limit": limits.pop(),
        "norm_last": int(layer.norm_last),
        "whole_rows": int(whole_rows),
        **{f"has_{name}_norm": int(name in norms) for name in "qkv"},
    }


def _operands(layer: _Layer) -> dict[str, Operand]:
    """Those of the append, which takes the chains' sources; weights of norms; the table of rotations."""
    operands: dict[str, Operand] = dict(layer.append.operands) if layer.append else {}
    operands |= {name: chain.source for name, chain in layer.chains.items()}
    for name, norm in layer.of_kind("rms_norm").items():
        if name != "v" and "weight" in norm.operands:
            operands[f"{name}_weight"] = norm.operands["weight"]
    for rotation in layer.of_kind("rope").values():
        operands["table"] = rotation.operands["table"]
    return operands


def _spans_heads(norm: Op, head_dim: int) -> bool:
    """Whether a norm's groups are larger than heads."""
    return value_of(norm, "x").width > int(norm.attributes["groups"]) * head_dim
