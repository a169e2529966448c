"""Literal rewrites of the op list, each a short named sequence with its conditions. There is no general matcher.

`absorb_latents` and `quantize_inputs` are not fusions: the one takes another form of the same maths, the other is what
kernels of the CPU need. The others may be left out (`fuse=False`) without changing results beyond rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..formats import FORMATS
from ..graph import Experts, Op, Value, Weight
from .op_list import Ops, makers_of, users_of, value_of
from .qkv_prepare import qkv_prepare
from .targets import Target


def absorb_latents(ops: Ops) -> Ops:
    """latent_attention in its absorbed form: queries through k_up, attention over latents, its result through v_up."""
    return _absorbed(ops, lambda op: True)


def absorb_selections(ops: Ops) -> Ops:
    """As absorb_latents where positions are selected: most of those that would be expanded, nobody sees."""
    return _absorbed(ops, lambda op: "selected" in op.operands)


def _absorbed(ops: Ops, chosen: Callable[[Op], bool]) -> Ops:
    out: Ops = []
    for op in ops:
        if op.kind != "latent_attention" or not chosen(op):
            out.append(op)
            continue
        q, k_up, v_up = (op.operands[name] for name in ("q", "k_up", "v_up"))
        assert isinstance(q, Value)
        assert isinstance(k_up, Experts)
        heads, rank, _ = k_up.shape
        each = {"k": heads, "weighted": False}
        latent_q, mixed = (Value((q.shape[0], heads * rank), kind) for kind in ("expert_linear", "attention"))
        rest = {name: o for name, o in op.operands.items() if name not in ("q", "k_up", "v_up")}
        out += [
            Op("expert_linear", {"x": q, "weight": k_up}, each, latent_q, op.stage, op.layer),
            Op("attention", {"q": latent_q, **rest}, op.attributes, mixed, op.stage, op.layer),
            Op("expert_linear", {"x": mixed, "weight": v_up}, each, op.out, op.stage, op.layer),
        ]
    return out


def quantize_inputs(ops: Ops, target: Target) -> Ops:
    """A product with quantised weights reads quantised rows.

    With 8 bits, one with F16 or BF16 weights reads rows of bfloat16 where the target multiplies these. There is one
    `quantize` per input value, division into parts and type of row.
    """
    quantized: dict[tuple[Value, int, str], Value] = {}
    out: Ops = []
    for op in ops:
        weight = op.operands.get("weight")
        if op.kind in ("linear", "expert_linear") and isinstance(weight, Weight | Experts):
            x, dtype = value_of(op, "x"), _row_dtype(weight.format, target)
            key = x, x.width // weight.shape[-1], dtype
            if dtype != "f32" and key not in quantized:
                quantized[key] = Value(x.shape, "quantize", dtype, key[1])
                out.append(Op("quantize", {"x": x}, {}, quantized[key], op.stage, op.layer))
            op = replace(op, operands={**op.operands, "x": quantized.get(key, x)})
        out.append(op)
    return out


def quantize_in_producer(ops: Ops) -> Ops:
    """A norm or gated_activation whose only reader is a quantize writes quantised rows itself."""
    users, removed, out = users_of(ops), set(), []
    for op in ops:
        readers = users[op.out] if op.out else []
        whole = op.kind in ("rms_norm", "layer_norm") and op.attributes["groups"] == 1
        if [r.kind for r in readers] == ["quantize"] and (whole or op.kind == "gated_activation"):
            removed.add(readers[0])
            op = replace(op, kind=op.kind + "_quantize", out=readers[0].out)
        if op not in removed:
            out.append(op)
    return out


def scale_in_linear(ops: Ops) -> Ops:
    """Scale of a linear's result, read by nobody else, becomes the factor of its sums; a bias would need it too."""
    users, makers = users_of(ops), makers_of(ops)
    rewritten: dict[Op, Op] = {}
    removed: set[Op] = set()
    for op in ops:
        if op.kind != "scale":
            continue
        result = value_of(op, "x")
        linear = makers.get(result)
        if linear is None or linear.kind != "linear" or "bias" in linear.operands or len(users[result]) != 1:
            continue
        rewritten[linear] = replace(linear, attributes={"scale": op.attributes["factor"]}, out=op.out)
        removed.add(op)
    return [rewritten.get(op, op) for op in ops if op not in removed]


def residual_in_linear(ops: Ops) -> Ops:
    """Add of a linear's or expert_sum's result, read by nobody else, to an earlier value becomes its residual."""
    users, positions = users_of(ops), {op.out: i for i, op in enumerate(ops)}
    rewritten: dict[Op, Op] = {}
    removed: set[Op] = set()
    for add in ops:
        if add.kind != "add":
            continue
        a, b = value_of(add, "a"), value_of(add, "b")
        for product, other in ((b, a), (a, b)):
            op = ops[positions[product]]
            earlier = positions.get(other, -1) < positions[product]
            able = op.kind in ("linear", "expert_sum") and op not in rewritten
            if able and len(users[product]) == 1 and earlier:
                rewritten[op] = replace(op, operands={**op.operands, "residual": other}, out=add.out)
                removed.add(add)
                break
    return [rewritten.get(op, op) for op in ops if op not in removed]


CPU_FUSIONS: tuple[Callable[[Ops], Ops], ...] = (
    scale_in_linear,
    residual_in_linear,
    qkv_prepare,
    quantize_in_producer,
)


def _row_dtype(weight_format: str, target: Target) -> str:
    """Of the activations that a CPU's products with such weights read."""
    if FORMATS[weight_format].block > 1:
        return f"q{target.activation_bits}"
    rounded = target.activation_bits == 8 and f"matmul_{weight_format.lower()}_rounded" in target.kernels
    return "bf16" if rounded else "f32"
