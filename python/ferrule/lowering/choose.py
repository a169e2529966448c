"""The kernel table: which kernel serves an op, and the parameters it is given.

A row is one op kind. Placeholders in a kernel's name are filled from the op: {format} of its matrix, {kv} type of the
cache, {mat} and {experts} by the row class, {rounded} for bfloat16 activations, {absorbed} where Metal has kernels
of its own for attention over latents.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..errors import UnsupportedOp
from ..formats import FORMATS
from ..graph import CacheLayer, Dim, Experts, Op, StateLayer, Value, Weight
from .layout import planes
from .metal import linears_params
from .metal_limits import needs
from .op_list import value_of
from .plan import CHOICES, Launch, Params
from .targets import RowClass, Target


@dataclass(frozen=True)
class Row:
    """`signature`: the header in `csrc/params` that declares operands and parameters; `out` its result's operand."""

    signature: str
    kernel: str
    params: Callable[[Op], Params]
    out: str = "out"


def _width(op: Op) -> Params:
    return {"width": _out(op).width}


def _elementwise(op: Op) -> Params:
    return {**_width(op), **op.attributes}


def _sample(op: Op) -> Params:
    return {"width": value_of(op, "logits").width}


def _root_mean_square(op: Op) -> Params:
    return {"width": value_of(op, "x").width}


def _take_columns(op: Op) -> Params:
    return {"width": value_of(op, "x").width, "begin": op.attributes["begin"], "count": _out(op).width}


def _rms_norm(op: Op) -> Params:
    groups = op.attributes["groups"]
    width = _out(op).width // groups
    return {"width": width, "planes": planes(_out(op)), **op.attributes}


def _rope_table(op: Op) -> Params:
    return {"n": _out(op).width // 2, **op.attributes}


def _attention(op: Op) -> Params:
    cache, selected = op.operands["cache"], op.operands.get("selected")
    assert isinstance(cache, CacheLayer)
    latent, top = cache.kind == "latent", selected.width if isinstance(selected, Value) else 0
    absent = {"window": 0, "chunk": 0, "softcap": 0.0}
    return {**absent, **_cache(op), **op.attributes, "latent": latent, "top": top}


def _latent_attention(op: Op) -> Params:
    cache, k_up, v_up = (op.operands[name] for name in ("cache", "k_up", "v_up"))
    assert isinstance(cache, CacheLayer)
    assert isinstance(k_up, Experts)
    assert isinstance(v_up, Experts)
    return {
        **op.attributes,
        "plain": k_up.shape[2],
        "rotated": cache.head_dim,
        "rank": cache.v_head_dim,
        "v_dim": v_up.shape[1],
        "k_format": FORMATS[k_up.format].ggml_type,
        "v_format": FORMATS[v_up.format].ggml_type,
    }


def _select_positions(op: Op) -> Params:
    return {**_cache(op), **op.attributes}


def _causal_conv1d(op: Op) -> Params:
    return {"channels": _out(op).width, "taps": op.attributes["kernel"]}


def _ssm_scan(op: Op) -> Params:
    heads, head_dim, n = _state(op).shape
    return {**op.attributes, "heads": heads, "head_dim": head_dim, "n": n, "a_width": _weight(op, "a").shape[1]}


def _gated_delta_rule(op: Op) -> Params:
    heads, k_dim, v_dim = _state(op).shape
    return {
        "heads": heads,
        "k_heads": value_of(op, "k").width // k_dim,
        "k_dim": k_dim,
        "v_dim": v_dim,
        "decays": value_of(op, "dt").width // heads,
        "tiled": op.attributes["tiled"],
    }


def _multiply(op: Op) -> Params:
    width, groups = _out(op).width, op.attributes.get("groups", 0)
    return {"width": width, "group": width // groups if groups else 1, "factor_stride": groups}


def _mix_streams(op: Op) -> Params:
    width, coefficients = op.attributes["width"], op.operands["coefficients"]
    return {
        "width": width,
        "inputs": value_of(op, "x").width // width,
        "outputs": _out(op).width // width,
        "coefficient_stride": coefficients.width if isinstance(coefficients, Value) else 0,
    }


def _route(op: Op) -> Params:
    attributes = op.attributes
    return {
        **attributes,
        "experts": value_of(op, "logits").width,
        **_chosen(op, "scoring", "group_score"),
    }


def _expert_linear(op: Op) -> Params:
    x, weight = value_of(op, "x"), op.operands["weight"]
    assert isinstance(weight, Experts)
    experts, n, k = weight.shape
    return {
        "k": k,
        "n": n,
        "experts": experts,
        "slots": op.attributes["k"],
        "x_slots": x.width // k,
        "weighted": op.attributes["weighted"],
        "planes": planes(x),
    }


def _expert_sum(op: Op) -> Params:
    return {**_width(op), "slots": op.attributes["k"], "weighted": op.attributes["weighted"]}


def _linear(op: Op) -> Params:
    n, k = _weight(op, "weight").shape
    return {"k": k, "n": n, "scale": op.attributes.get("scale", 1.0), "planes": planes(value_of(op, "x"))}


def _quantize(op: Op) -> Params:
    parts = _out(op).parts
    return {"k": _out(op).width // parts, "parts": parts, "planes": planes(_out(op))}


def _embedding(op: Op) -> Params:
    n, k = _weight(op, "table").shape
    return {"k": k, "n": n, "eps": 0.0, "weight_offset": 0.0, **op.attributes}


def _rope(op: Op) -> Params:
    n_pairs = value_of(op, "table").width // 2
    return {**op.attributes, "n_pairs": n_pairs, **_chosen(op, "pairing")}


def _cache(op: Op) -> Params:
    cache = op.operands["cache"]
    assert isinstance(cache, CacheLayer)
    return {"kv_heads": cache.kv_heads, "head_dim": cache.head_dim, "v_head_dim": cache.v_head_dim}


def _qkv_prepare(op: Op) -> Params:
    table, cache = op.operands.get("table"), _cache(op) if "cache" in op.operands else {"kv_heads": 0, "v_head_dim": 0}
    n_pairs = table.width // 2 if isinstance(table, Value) else 0
    return {**cache, **op.attributes, "n_pairs": n_pairs, **_chosen(op, "pairing")}


def _activation(op: Op) -> Params:
    return {**_width(op), "parts": _out(op).parts, "planes": planes(_out(op)), **_chosen(op, "activation")}


TABLE: Mapping[str, Row] = {
    "embedding": Row("embedding", "embedding_{format}", _embedding),
    "rms_norm": Row("rms_norm", "rms_norm", _rms_norm),
    "rms_norm_quantize": Row("rms_norm", "rms_norm_quantize", _rms_norm),
    "residual_norm": Row("residual_norm", "residual_norm", _elementwise),
    "layer_norm": Row("layer_norm", "layer_norm", _rms_norm),
    "layer_norm_quantize": Row("layer_norm", "layer_norm_quantize", _rms_norm),
    "quantize": Row("quantize", "quantize", _quantize),
    "linear": Row("matmul", "{mat}_{format}{rounded}", _linear),
    "linears": Row("linears", "{mat}_{format}", linears_params),
    "linears_merge": Row("linears_merge", "linears_merge", lambda op: op.attributes),
    "route": Row("route", "route", _route),
    "expert_linear": Row("expert_linear", "{experts}_{format}{rounded}", _expert_linear),
    "expert_order": Row("expert_order", "expert_order", lambda op: op.attributes),
    "expert_sum": Row("expert_sum", "expert_sum", _expert_sum),
    "rope_table": Row("rope_table", "rope_table", _rope_table),
    "sectioned_rope_table": Row("sectioned_rope_table", "sectioned_rope_table", _rope_table),
    "long_rope_table": Row("long_rope_table", "long_rope_table", _rope_table),
    "dynamic_rope_table": Row("dynamic_rope_table", "dynamic_rope_table", _rope_table),
    "rope": Row("rope", "rope", _rope),
    "kv_append": Row("kv_append", "kv_append_{kv}", _cache),
    "index_append": Row("kv_append", "kv_append_{kv}", _cache),
    "select_positions": Row("select_positions", "select_positions_{kv}", _select_positions),
    "causal_conv1d": Row("causal_conv1d", "causal_conv1d", _causal_conv1d),
    "ssm_scan": Row("ssm_scan", "ssm_scan", _ssm_scan),
    "gated_delta_rule": Row("gated_delta_rule", "gated_delta_rule", _gated_delta_rule),
    "qkv_prepare": Row("qkv_prepare", "qkv_prepare_{kv}", _qkv_prepare),
    "attention": Row("attention", "{absorbed}attention_{kv}", _attention),
    "chunked_attention": Row("attention", "attention_{kv}", _attention),
    "latent_attention": Row("latent_attention", "latent_attention_{kv}", _latent_attention),
    "attention_split": Row("attention_split", "{absorbed}attention_split_{kv}", _attention, out="partials"),
    "attention_merge": Row("attention_merge", "attention_merge", lambda op: op.attributes),
    "activation": Row("activation", "activation", _activation),
    "gated_activation": Row("gated_activation", "gated_activation", _activation),
    "gated_activation_quantize": Row("gated_activation", "gated_activation_quantize", _activation),
    "clamped_swiglu": Row("clamped_swiglu", "clamped_swiglu", _elementwise),
    "xielu": Row("xielu", "xielu", _elementwise),
    "keep_outliers": Row("keep_outliers", "keep_outliers", _elementwise),
    "root_mean_square": Row("root_mean_square", "root_mean_square", _root_mean_square),
    "clamp": Row("clamp", "clamp", _elementwise),
    "add": Row("add", "add", _width),
    "scale": Row("scale", "scale", _elementwise),
    "scale_columns": Row("multiply", "multiply", _multiply),
    "scale_groups": Row("multiply", "multiply", _multiply),
    "scale_by_position": Row("scale_by_position", "scale_by_position", _elementwise),
    "mix_streams": Row("mix_streams", "mix_streams", _mix_streams),
    "softcap": Row("softcap", "softcap", _elementwise),
    "take_columns": Row("take_columns", "take_columns", _take_columns),
    "sample": Row("sample", "sample", _sample),
    "take_rows": Row("take_rows", "take_rows", _width),
}


# {mat} by backend and row class.
MATRIX_KERNELS: Mapping[str, Mapping[RowClass, str]] = {
    "cpu": {"few_rows": "matvec", "many_rows": "matmul"},
    "metal": {"one_row": "matvec", "few_rows": "matvec_rows", "many_rows": "matmul"},
}
# {experts} likewise.
EXPERT_KERNELS: Mapping[str, Mapping[RowClass, str]] = {
    "cpu": {"few_rows": "expert_linear", "many_rows": "expert_linear"},
    "metal": {"one_row": "expert_matvec", "few_rows": "expert_matvec", "many_rows": "expert_matmul"},
}


def choose(
    op: Op, target: Target, *, row_classes: Mapping[Dim, RowClass], kv_dtype: str, allow_missing: bool = False
) -> Launch:
    """The launch that serves `op`, whose row class is that of its symbolic number of rows.

    Raises UnsupportedOp naming op, layer and kernel where the target has none, unless `allow_missing`, or where it has
    one that cannot take the op's shape.
    """
    where = f"layer {op.layer}, " if op.layer is not None else ""
    if op.kind not in TABLE:
        raise UnsupportedOp(f"no kernel of target {target.name} serves op {op.kind} ({where}stage {op.stage})")
    row = TABLE[op.kind]
    rows = op.out.shape[0] if op.out else _value_rows(op)
    matrix, x = op.operands.get("table" if op.kind == "embedding" else "weight"), op.operands.get("x")
    kernel = row.kernel.format(
        format=matrix.format.lower() if isinstance(matrix, Weight | Experts) else "",
        kv=kv_dtype,
        mat=MATRIX_KERNELS[target.backend][row_classes[rows]],
        experts=EXPERT_KERNELS[target.backend][row_classes[rows]],
        rounded="_rounded" if isinstance(x, Value) and x.dtype == "bf16" else "",
        absorbed="absorbed_" if target.backend == "metal" and "q_rotated" in op.operands else "",
    )
    params = row.params(op)
    wrong = missing(target, kernel, row.signature, params)
    if wrong and not allow_missing:
        raise UnsupportedOp(f"{wrong} for op {op.kind} ({where}stage {op.stage})")
    operands = dict(op.operands)
    if op.out is not None:
        operands[row.out] = op.out
    return Launch(kernel, row.signature, operands, params, rows, op.stage, op.layer)


def missing(target: Target, kernel: str, signature: str, params: Params) -> str | None:
    """Why the target cannot run a kernel with such parameters; None where it can."""
    if kernel not in target.kernels:
        return f"target {target.name} has no kernel {kernel}"
    needed = needs(signature, params) if target.backend == "metal" else None
    return f"kernel {kernel} of target {target.name} needs {needed}" if needed else None


def _chosen(op: Op, *parameters: str) -> Params:
    """The numbers of what the op's attributes choose by name."""
    return {parameter: CHOICES[parameter][op.attributes[parameter]] for parameter in parameters}


def _out(op: Op) -> Value:
    assert op.out is not None
    return op.out


def _weight(op: Op, name: str) -> Weight:
    weight = op.operands[name]
    assert isinstance(weight, Weight)
    return weight


def _state(op: Op) -> StateLayer:
    state = op.operands["state"]
    assert isinstance(state, StateLayer)
    return state


def _value_rows(op: Op) -> Dim:
    return next(operand for operand in op.operands.values() if isinstance(operand, Value)).shape[0]
