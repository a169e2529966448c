"""Literal rewrites of the op list, each a short named sequence with its conditions. There is no general matcher.

`absorb_latents` and `quantize_inputs` are not fusions: the one takes another form of the same maths, the other is what
kernels of the CPU need. The others may be left out (`fuse=False`) without changing results beyond rounding.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace

from ..formats import FORMATS
from ..graph import CacheLayer, Experts, Op, Operand, Value, Weight
from .targets import Target

Ops = list[Op]


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


def residual_in_linear(ops: Ops) -> Ops:
    """Add of a linear's or expert_sum's result, read by nobody else, to an earlier value becomes its residual."""
    users, made = users_of(ops), {op.out: i for i, op in enumerate(ops) if op.out}
    rewritten: dict[Op, Op] = {}
    removed: set[Op] = set()
    for add in ops:
        if add.kind != "add":
            continue
        a, b = value_of(add, "a"), value_of(add, "b")
        for product, other in ((b, a), (a, b)):
            op = ops[made[product]]
            earlier = made.get(other, -1) < made[product]
            able = op.kind in ("linear", "expert_sum") and op not in rewritten
            if able and len(users[product]) == 1 and earlier:
                rewritten[op] = replace(op, operands={**op.operands, "residual": other}, out=add.out)
                removed.add(add)
                break
    return [rewritten.get(op, op) for op in ops if op not in removed]


def qkv_prepare(ops: Ops) -> Ops:
    """Limits, head norms and rotations from the projections to the cache, and the append itself, become one launch."""
    users, producers = users_of(ops), {op.out: op for op in ops if op.out}
    rewritten: dict[Op, Op] = {}
    removed: set[Op] = set()

    def chain(value: Value, kinds: tuple[str, ...], head_dim: int) -> tuple[Value, dict[str, Op]]:
        """Walks back over at most one op of each kind, last kind first, while nobody else reads the results.

        Norms that span several heads do not belong here.
        """
        found: dict[str, Op] = {}
        for kind in kinds:
            op = producers.get(value)
            if op is None or op.kind != kind or len(users[value]) != 1:
                continue
            if kind == "rms_norm" and value.width != op.attributes["groups"] * head_dim:
                continue
            found[kind], value = op, value_of(op, "x")
        return value, found

    for append in ops:
        if append.kind != "kv_append":
            continue
        cache = append.operands["cache"]
        attention = next(op for op in ops if op.operands.get("cache") is cache and op is not append)
        assert isinstance(cache, CacheLayer)
        if cache.kind != "keys_values":
            continue
        q, q_ops = chain(value_of(attention, "q"), ("rope", "rms_norm", "clamp"), cache.head_dim)
        k, k_ops = chain(value_of(append, "k"), ("rope", "rms_norm", "clamp"), cache.head_dim)
        v, v_ops = chain(value_of(append, "v"), ("rms_norm", "clamp"), cache.v_head_dim)
        norms = {
            name: found["rms_norm"] for name, found in (("q", q_ops), ("k", k_ops), ("v", v_ops)) if "rms_norm" in found
        }
        settings = {(op.attributes["eps"], op.attributes["weight_offset"]) for op in norms.values()}
        ropes = [found["rope"] for found in (q_ops, k_ops) if "rope" in found]
        same_rope = len(ropes) != 1 and len({(r.operands["table"], r.attributes["pairing"]) for r in ropes}) <= 1
        limits = {found["clamp"].attributes["limit"] if "clamp" in found else 0.0 for found in (q_ops, k_ops, v_ops)}
        if len(settings) > 1 or len(limits) > 1 or not same_rope or len(users[q]) != 1:
            continue
        eps, weight_offset = settings.pop() if settings else (0.0, 0.0)
        operands: dict[str, Operand] = {**append.operands, "q": q, "k": k, "v": v}
        for name in norms.keys() & {"q", "k"}:
            if "weight" in norms[name].operands:
                operands[f"{name}_weight"] = norms[name].operands["weight"]
        if ropes:
            operands["table"] = ropes[0].operands["table"]
        attributes = {
            "heads": attention.attributes["heads"],
            "pairing": ropes[0].attributes["pairing"] if ropes else "half",
            "eps": eps,
            "weight_offset": weight_offset,
            "limit": limits.pop(),
            **{f"has_{name}_norm": int(name in norms) for name in "qkv"},
        }
        removed |= {*q_ops.values(), *k_ops.values(), *v_ops.values()}
        rewritten[append] = Op("qkv_prepare", operands, attributes, None, "qk norm, rope, kv append", append.layer)
        rewritten[attention] = replace(attention, operands={**attention.operands, "q": q})
    return [rewritten.get(op, op) for op in ops if op not in removed]


CPU_FUSIONS: tuple[Callable[[Ops], Ops], ...] = (residual_in_linear, qkv_prepare, quantize_in_producer)


def users_of(ops: Ops) -> defaultdict[Value, list[Op]]:
    """The ops that read each value. Only before an op has more than one result."""
    users: defaultdict[Value, list[Op]] = defaultdict(list)
    for op in ops:
        for operand in op.operands.values():
            if isinstance(operand, Value):
                users[operand].append(op)
    return users


def value_of(op: Op, name: str) -> Value:
    """The named operand, which is a value."""
    operand = op.operands[name]
    assert isinstance(operand, Value)
    return operand


def _row_dtype(weight_format: str, target: Target) -> str:
    """Of the activations that a CPU's products with such weights read."""
    if FORMATS[weight_format].block > 1:
        return f"q{target.activation_bits}"
    rounded = target.activation_bits == 8 and f"matmul_{weight_format.lower()}_rounded" in target.kernels
    return "bf16" if rounded else "f32"
