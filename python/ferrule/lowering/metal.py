"""What plans for Metal have of their own: fusions, work in parts, experts in order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from .. import _core
from ..graph import CacheLayer, Dim, Experts, Op, Operand, Value, Weight
from .fusions import residual_in_linear, scale_in_linear
from .op_list import Ops, makers_of, users_of, value_of
from .plan import CHOICES, Params
from .qkv_prepare import qkv_prepare
from .targets import MOST_ROWS, RowClass

MAX_SPLITS = 16  # parts of a context, of whole blocks, that few rows of attention are cut into to occupy the GPU
_MATRICES = ("", "_b", "_c")  # suffixes of the operands of `linears`


def activation_in_linear(ops: Ops) -> Ops:
    """A linear's result that nobody but an activation reads is activated, and multiplied by what it gates, at once.

    What it gates may be the result of a linear of the same value, which is then computed there too, or some columns of
    a value, which are then read where they are.
    """
    users, makers = users_of(ops), makers_of(ops)
    rewritten: dict[Op, Op] = {}
    removed: set[Op] = set()
    for op in ops:
        if op.kind not in ("activation", "gated_activation"):
            continue
        result = value_of(op, "x" if op.kind == "activation" else "gate")
        linear = makers.get(result)
        if linear is None or not _is_plain(linear) or users[result] != [op]:
            continue
        operands, attributes = dict(linear.operands), {**linear.attributes, "activation": op.attributes["activation"]}
        if op.kind == "gated_activation":
            up = value_of(op, "up")
            source = makers.get(up) if users[up] == [op] else None
            if source is not None and _is_plain(source) and _is_alike(linear, source):
                operands = _side_by_side([linear, source], with_results=False)
                removed.add(source)
            elif source is not None and source.kind == "take_columns":
                operands["up"], attributes["up_begin"] = source.operands["x"], source.attributes["begin"]
                removed.add(source)
            else:
                operands["up"] = up
        rewritten[op] = Op("linears", operands, attributes, op.out, linear.stage, op.layer)
        removed.add(linear)
    return [rewritten.get(op, op) for op in ops if op not in removed]


def linears_side_by_side(ops: Ops) -> Ops:
    """Up to three linears of a layer that read one value, with one factor and one format of weights, are one launch."""
    groups: defaultdict[object, list[Op]] = defaultdict(list)
    for op in ops:
        if _is_plain(op):
            groups[op.layer, _input(op)].append(op)
    rewritten: dict[Op, Op] = {}
    removed: set[Op] = set()
    for group in groups.values():
        for i in range(0, len(group), len(_MATRICES)):
            first, *others = together = group[i : i + len(_MATRICES)]
            rewritten[first] = replace(first, kind="linears", operands=_side_by_side(together, with_results=True))
            removed.update(others)
    return [rewritten.get(op, op) for op in ops if op not in removed]


def residual_norm(ops: Ops) -> Ops:
    """The norm of a block's result, the add of the residual and what follows, a factor and a norm, are one launch."""
    users, makers = users_of(ops), makers_of(ops)
    rewritten: dict[Op, Op] = {}
    removed: set[Op] = set()
    for add in ops:
        if add.kind != "add" or add.out is None:
            continue
        for name, other in (("a", "b"), ("b", "a")):
            norm = makers.get(value_of(add, name))
            if norm is None or not _is_whole_norm(norm) or len(users[value_of(add, name)]) != 1:
                continue
            operands: dict[str, Operand] = {**norm.operands, "residual": add.operands[other]}
            settings = {**_settings(norm), "factor": 1.0}
            result, readers = add.out, users[add.out]
            if [op.kind for op in readers] == ["scale"] and readers[0].out is not None:
                removed.add(readers[0])
                settings["factor"], result = readers[0].attributes["factor"], readers[0].out
            follower = next(
                (op for op in users[result] if _is_whole_norm(op) and op.attributes == norm.attributes), None
            )
            if follower is not None:
                operands |= _next(follower)
                removed.add(follower)
            rewritten[add] = replace(add, kind="residual_norm", operands=operands, attributes=settings, out=result)
            removed.add(norm)
            break
    return [rewritten.get(op, op) for op in ops if op not in removed]


def norm_of_embedding(ops: Ops) -> Ops:
    """A norm of embeddings is computed with them."""
    users = users_of(ops)
    rewritten: dict[Op, Op] = {}
    removed: set[Op] = set()
    for op in ops:
        if op.kind != "embedding" or op.out is None:
            continue
        norm = next((reader for reader in users[op.out] if _is_whole_norm(reader)), None)
        if norm is not None:
            rewritten[op] = replace(
                op, operands={**op.operands, **_next(norm)}, attributes={**op.attributes, **_settings(norm)}
            )
            removed.add(norm)
    return [rewritten.get(op, op) for op in ops if op not in removed]


FUSIONS: tuple[Callable[[Ops], Ops], ...] = (
    scale_in_linear,
    residual_in_linear,
    partial(qkv_prepare, whole_rows=True),
    activation_in_linear,
    residual_norm,
    norm_of_embedding,
    linears_side_by_side,
)


def linears(ops: Ops) -> Ops:
    """Every linear as the op that Metal's kernels serve."""
    return [replace(op, kind="linears") if op.kind == "linear" else op for op in ops]


def linears_params(op: Op) -> Params:
    """Parameters of `linears` (`csrc/params/linears.h`)."""
    n, k = _matrix(op).shape
    n_b, n_c = (w.shape[0] if isinstance(w, Weight) else 0 for w in map(op.operands.get, ("weight_b", "weight_c")))
    activation, up = op.attributes.get("activation"), op.operands.get("up")
    gated = "weight_b" in op.operands and "out_b" not in op.operands
    return {
        "k": k,
        "n": n,
        "n_b": n_b,
        "n_c": n_c,
        "scale": op.attributes.get("scale", 1.0),
        "activated": int(activation is not None and not gated),
        "gated": int(gated),
        "activation": CHOICES["activation"][activation] if activation else 0,
        "up_stride": up.width if isinstance(up, Value) else 0,
        "up_begin": op.attributes.get("up_begin", 0),
        "split": int("partials" in op.operands),
    }


def _is_plain(op: Op) -> bool:
    return op.kind == "linear" and "residual" not in op.operands


def _is_whole_norm(op: Op) -> bool:
    return op.kind == "rms_norm" and op.attributes["groups"] == 1


def _settings(norm: Op) -> dict[str, float]:
    return {key: norm.attributes[key] for key in ("eps", "weight_offset")}


def _next(norm: Op) -> dict[str, Operand]:
    """Operands of an op that computes a norm of its result too."""
    assert norm.out is not None
    weight = {"next_weight": norm.operands["weight"]} if "weight" in norm.operands else {}
    return {"next": norm.out, **weight}


def _input(op: Op) -> tuple[Operand, str, float]:
    return op.operands["x"], _matrix(op).format, op.attributes.get("scale", 1.0)


def _is_alike(op: Op, other: Op) -> bool:
    return _input(op) == _input(other) and _matrix(op).shape == _matrix(other).shape


def _matrix(op: Op) -> Weight:
    weight = op.operands["weight"]
    assert isinstance(weight, Weight)
    return weight


def _side_by_side(together: Ops, *, with_results: bool) -> dict[str, Operand]:
    operands: dict[str, Operand] = {"x": together[0].operands["x"]}
    for suffix, op in zip(_MATRICES, together, strict=False):
        operands |= {name + suffix: op.operands[name] for name in ("weight", "bias") if name in op.operands}
        if with_results and suffix and op.out is not None:
            operands[f"out{suffix}"] = op.out
    return operands


def split_linears(ops: Ops, classes: Mapping[Dim, RowClass]) -> Ops:
    """linears that may be split leave partial sums to linears_merge, which runs when a result is wanted.

    So products that run side by side still do. `classes` tells how many rows a dimension has.
    """
    out: Ops = []
    merges: Ops = []
    unmerged: set[Operand | None] = set()
    for op in ops:
        if not unmerged.isdisjoint(op.operands.values()):
            out += merges
            merges, unmerged = [], set()
        partials = _partials(op, classes) if op.kind == "linears" else None
        if op.out is None or partials is None:
            out.append(op)
            continue
        split = replace(op, operands={**op.operands, "out": op.out, "partials": partials}, out=None)
        out.append(split)
        operands = {name: o for name, o in split.operands.items() if not name.startswith(("x", "weight"))}
        merges.append(Op("linears_merge", operands, linears_params(split), op.out, op.stage, op.layer))
        unmerged |= {op.out, op.operands.get("out_b"), op.operands.get("out_c")}
    return out + merges


def split_attention(ops: Ops) -> Ops:
    """attention becomes attention_split, whose parts of the context run side by side, and attention_merge."""
    out: Ops = []
    for op in ops:
        cache = op.operands.get("cache")
        if op.kind not in ("attention", "chunked_attention"):
            out.append(op)
            continue
        assert isinstance(cache, CacheLayer)
        assert op.out is not None
        operands = dict(op.operands)
        sinks = {"sinks": operands.pop("sinks")} if "sinks" in operands else {}
        sizes = {"heads": op.attributes["heads"], "splits": _splits(op)}
        partials = Value(
            (op.out.shape[0], sizes["heads"] * sizes["splits"] * (cache.v_head_dim + 2)), "attention_split"
        )
        merge = {**sizes, "v_head_dim": cache.v_head_dim, "normed": 0, "eps": 0.0, "weight_offset": 0.0}
        out += [
            Op("attention_split", operands, {**op.attributes, **sizes}, partials, op.stage, op.layer),
            Op("attention_merge", {"partials": partials, **sinks}, merge, op.out, op.stage, op.layer),
        ]
    return out


def norm_in_merge(ops: Ops) -> Ops:
    """The norm of what attention gives, read by nobody else, is the merge's own."""
    users, makers = users_of(ops), makers_of(ops)
    rewritten: dict[Op, Op] = {}
    removed: set[Op] = set()
    for op in ops:
        if not _is_whole_norm(op):
            continue
        merge = makers.get(value_of(op, "x"))
        if merge is None or merge.kind != "attention_merge" or users[value_of(op, "x")] != [op]:
            continue
        settings = {**_settings(op), "normed": 1}
        weight = {"weight": op.operands["weight"]} if "weight" in op.operands else {}
        operands = {**merge.operands, **weight}
        rewritten[merge] = replace(merge, operands=operands, attributes={**merge.attributes, **settings}, out=op.out)
        removed.add(op)
    return [rewritten.get(op, op) for op in ops if op not in removed]


def order_experts(ops: Ops) -> Ops:
    """What reads experts in the order of csrc/params/expert_order.h gets it, from one launch for equal routes."""
    orders: dict[tuple[Operand | None, int], Value] = {}
    out: Ops = []
    for op in ops:
        if op.kind != "expert_linear":
            out.append(op)
            continue
        routes, weight, slots = op.operands.get("routes"), op.operands["weight"], op.attributes["k"]
        assert isinstance(weight, Experts)
        experts = len(weight.matrices)
        if (routes, experts) not in orders:
            most = MOST_ROWS["metal"]
            words = _core.expert_order_words(experts, slots, most)
            order = Value((value_of(op, "x").shape[0], -(-words // most)), "expert_order")
            operands = {} if routes is None else {"routes": routes}
            out.append(Op("expert_order", operands, {"experts": experts, "slots": slots}, order, op.stage, op.layer))
            orders[routes, experts] = order
        out.append(replace(op, operands={**op.operands, "order": orders[routes, experts]}))
    return out


def _partials(op: Op, classes: Mapping[Dim, RowClass]) -> Value | None:
    """Room for the partial sums of linears, None where they are never split."""
    rows, params = value_of(op, "x").shape[0], linears_params(op)
    sizes = [int(params[name]) for name in ("k", "n", "n_b", "n_c", "gated")]
    floats = _core.linears_partials(*sizes) if classes[rows] == "many_rows" else 0
    return Value((rows, -(-floats // MOST_ROWS["metal"])), "linears") if floats else None


def _splits(op: Op) -> int:
    """As many as there may be blocks in sight, up to the most."""
    selected = op.operands.get("selected")
    if isinstance(selected, Value):
        return min(MAX_SPLITS, -(-selected.width // _core.CACHE_BLOCK))
    in_sight = max(op.attributes.get("window", 0), op.attributes.get("chunk", 0))
    return min(MAX_SPLITS, in_sight // _core.CACHE_BLOCK + 2) if in_sight else MAX_SPLITS
