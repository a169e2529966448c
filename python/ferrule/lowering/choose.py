"""The kernel table: which kernel serves an op, and the parameters it is given.

A row is one op kind. Placeholders in a kernel's name are filled from the op: {format} of its matrix, {kv} type of the
cache, {mat} "matvec" or "matmul" by the row class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .. import _core
from ..errors import UnsupportedOp
from ..graph import ROWS, CacheLayer, Op, Value, Weight
from .plan import Launch, RowClass
from .targets import Target

Params = Mapping[str, int | float]
PAIRINGS = {"half": 0, "adjacent": 1}


@dataclass(frozen=True)
class Row:
    """`signature`: the header in `csrc/params` that declares operands and parameters."""

    signature: str
    kernel: str
    params: Callable[[Op], Params]


def _width(op: Op) -> Params:
    return {"width": _out(op).width}


def _rms_norm(op: Op) -> Params:
    groups = op.attributes["groups"]
    width = _out(op).width // groups
    return {"width": width, **op.attributes}


def _linear(op: Op) -> Params:
    n, k = _weight(op, "weight").shape
    return {"k": k, "n": n, "scale": 1.0}


def _embedding(op: Op) -> Params:
    n, k = _weight(op, "table").shape
    return {"k": k, "n": n, "scale": op.attributes["scale"]}


def _rope(op: Op) -> Params:
    table = op.operands["table"]
    assert isinstance(table, Value)
    return {**op.attributes, "n_pairs": table.width // 2, "pairing": PAIRINGS[op.attributes["pairing"]]}


def _cache(op: Op) -> Params:
    cache = op.operands["cache"]
    assert isinstance(cache, CacheLayer)
    return {"kv_heads": cache.kv_heads, "head_dim": cache.head_dim, "v_head_dim": cache.v_head_dim}


def _qkv_prepare(op: Op) -> Params:
    table = op.operands.get("table")
    n_pairs = table.width // 2 if isinstance(table, Value) else 0
    return {**_cache(op), **op.attributes, "n_pairs": n_pairs, "pairing": PAIRINGS[op.attributes["pairing"]]}


def _activation(op: Op) -> Params:
    return {"width": _out(op).width, "activation": _core.activations()[op.attributes["activation"]]}


TABLE: Mapping[str, Row] = {
    "embedding": Row("embedding", "embedding_{format}", _embedding),
    "rms_norm": Row("rms_norm", "rms_norm", _rms_norm),
    "rms_norm_q8": Row("rms_norm", "rms_norm_q8", _rms_norm),
    "quantize_q8": Row("quantize_q8", "quantize_q8", lambda op: {"k": _out(op).width}),
    "linear": Row("matmul", "{mat}_{format}", _linear),
    "rope_table": Row(
        "rope_table", "rope_table", lambda op: {"n": _out(op).width // 2, "scale": op.attributes["scale"]}
    ),
    "rope": Row("rope", "rope", _rope),
    "kv_append": Row("kv_append", "kv_append_{kv}", _cache),
    "qkv_prepare": Row("qkv_prepare", "qkv_prepare_{kv}", _qkv_prepare),
    "attention": Row("attention", "attention_{kv}", lambda op: {**_cache(op), **op.attributes}),
    "activation": Row("activation", "activation", _activation),
    "gated_activation": Row("gated_activation", "gated_activation", _activation),
    "gated_activation_q8": Row("gated_activation", "gated_activation_q8", _activation),
    "add": Row("add", "add", _width),
    "scale": Row("scale", "scale", lambda op: {**_width(op), **op.attributes}),
    "softcap": Row("softcap", "softcap", lambda op: {**_width(op), **op.attributes}),
    "take_rows": Row("take_rows", "take_rows", _width),
}


def choose(op: Op, target: Target, *, row_classes: Mapping[Any, RowClass], kv_dtype: str) -> Launch:
    """The launch that serves `op`. Raises UnsupportedOp naming op, layer and kernel where the CPU target has none."""
    where = f"layer {op.layer}, " if op.layer is not None else ""
    if op.kind not in TABLE:
        raise UnsupportedOp(f"no kernel of target {target.name} serves op {op.kind} ({where}stage {op.stage})")
    row = TABLE[op.kind]
    rows = op.out.shape[0] if op.out else _value_rows(op)
    matrix = op.operands.get("weight" if op.kind == "linear" else "table")
    kernel = row.kernel.format(
        format=matrix.format.lower() if isinstance(matrix, Weight) else "",
        kv=kv_dtype,
        mat="matvec" if row_classes[rows] == "few_rows" else "matmul",
    )
    if kernel not in target.kernels and target.backend == "cpu":
        raise UnsupportedOp(f"target {target.name} has no kernel {kernel} for op {op.kind} ({where}stage {op.stage})")
    operands = dict(op.operands) if op.out is None else {**op.operands, "out": op.out}
    return Launch(kernel, row.signature, operands, row.params(op), rows, op.stage, op.layer)


def row_classes(tokens: RowClass, rows: RowClass) -> dict[Any, RowClass]:
    """Row class by symbolic dimension."""
    return {"tokens": tokens, ROWS: rows}


def _out(op: Op) -> Value:
    assert op.out is not None
    return op.out


def _weight(op: Op, name: str) -> Weight:
    weight = op.operands[name]
    assert isinstance(weight, Weight)
    return weight


def _value_rows(op: Op) -> Any:
    return next(operand for operand in op.operands.values() if isinstance(operand, Value)).shape[0]
