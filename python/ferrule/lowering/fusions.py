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


def scale_in_linear(ops: Ops) -> Ops:
    """Scale of a linear's result, read by nobody else, becomes the factor of its sums; a bias would need it too."""
    users, made = users_of(ops), {op.out: op for op in ops if op.out}
    rewritten: dict[Op, Op] = {}
    removed: set[Op] = set()
    for op in ops:
        if op.kind != "scale":
            continue
        result = value_of(op, "x")
        linear = made.get(result)
        if linear is None or linear.kind != "linear" or "bias" in linear.operands or len(users[result]) != 1:
            continue
        rewritten[linear] = replace(linear, attributes={"scale": op.attributes["factor"]}, out=op.out)
        removed.add(op)
    return [rewritten.get(op, op) for op in ops if op not in removed]


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


def qkv_prepare(ops: Ops, *, whole_rows: bool = False) -> Ops:
    """Limits, norms and rotations from the projections to the cache, and the append itself, become one launch.

    So does what queries alone need where the cache is an earlier layer's. Norms span a head or, with `whole_rows`, all
    heads of a row.
    """
    users, made = users_of(ops), {op.out: op for op in ops if op.out}
    appends = {op.operands["cache"]: op for op in ops if op.kind == "kv_append"}
    rewritten: dict[Op, Op] = {}
    removed: set[Op] = set()

    def chain(value: Value, kinds: tuple[str, ...], head_dim: int, *, rows: bool) -> tuple[Value, dict[str, Op]]:
        """Walks back over at most one op of each kind, last kind first, while nobody else reads the results."""
        found: dict[str, Op] = {}
        for kind in kinds:
            op = made.get(value)
            if op is None or op.kind != kind or len(users[value]) != 1:
                continue
            if kind == "rms_norm" and _spans_heads(op, head_dim) and not (rows and op.attributes["groups"] == 1):
                continue
            found[kind], value = op, value_of(op, "x")
        return value, found

    for attention in ops:
        cache, is_attention = attention.operands.get("cache"), attention.kind in ("attention", "chunked_attention")
        if not is_attention or not isinstance(cache, CacheLayer) or cache.kind != "keys_values":
            continue
        append, q, head_dim = appends.pop(cache, None), value_of(attention, "q"), cache.head_dim
        last = made.get(q)
        before_last = made.get(value_of(last, "x")) if last is not None and last.kind == "rms_norm" else None
        norm_last = before_last is not None and before_last.kind == "rope"
        kinds = ("rms_norm", "rope", "clamp") if norm_last else ("rope", "rms_norm", "clamp")
        chains = {"q": chain(q, kinds, head_dim, rows=whole_rows)}
        if append is not None:
            chains["k"] = chain(value_of(append, "k"), kinds, head_dim, rows=whole_rows)
            chains["v"] = chain(value_of(append, "v"), ("rms_norm", "clamp"), cache.v_head_dim, rows=False)
        norms, ropes = (
            {name: found[kind] for name, (_, found) in chains.items() if kind in found} for kind in ("rms_norm", "rope")
        )
        limits = {found["clamp"].attributes["limit"] if "clamp" in found else 0.0 for _, found in chains.values()}
        rotations = {(op.operands["table"], op.attributes["pairing"]) for op in ropes.values()}
        settings = {(op.attributes["eps"], op.attributes["weight_offset"]) for op in norms.values()}
        of_rows = {op.attributes["groups"] == 1 for name, op in norms.items() if name != "v"}
        spans = any(_spans_heads(op, head_dim) for name, op in norms.items() if name != "v")
        is_uniform = max(len(limits), len(rotations), len(settings), len(of_rows) if spans else 0) <= 1
        if not is_uniform or len(ropes) not in (0, len(chains.keys() - {"v"})) or (spans and norm_last):
            continue
        source, steps = chains["q"][0], [op for _, found in chains.values() for op in found.values()]
        if len(users[source]) != 1 or (append is None and len(steps) < 2):
            continue
        operands: dict[str, Operand] = {name: value for name, (value, _) in chains.items()}
        if append is not None:
            operands = {**append.operands, **operands}
        for name in norms.keys() & {"q", "k"}:
            if "weight" in norms[name].operands:
                operands[f"{name}_weight"] = norms[name].operands["weight"]
        eps, weight_offset = settings.pop() if settings else (0.0, 0.0)
        attributes = {
            "heads": attention.attributes["heads"],
            "head_dim": head_dim,
            "pairing": "half",
            "eps": eps,
            "weight_offset": weight_offset,
            "limit": limits.pop(),
            "norm_last": int(norm_last),
            "whole_rows": int(spans),
            **{f"has_{name}_norm": int(name in norms) for name in "qkv"},
        }
        if rotations:
            operands["table"], attributes["pairing"] = rotations.pop()
        removed.update(steps)
        place = append or last
        assert place is not None
        removed.discard(place)
        out = q if spans else None  # a row's heads all read the row, so that none may change it
        rewritten[place] = Op("qkv_prepare", operands, attributes, out, "qk norm, rope, kv append", attention.layer)
        if not spans:
            rewritten[attention] = replace(attention, operands={**attention.operands, "q": source})
    return [rewritten.get(op, op) for op in ops if op not in removed]


CPU_FUSIONS: tuple[Callable[[Ops], Ops], ...] = (
    scale_in_linear,
    residual_in_linear,
    qkv_prepare,
    quantize_in_producer,
)


def _spans_heads(norm: Op, head_dim: int) -> bool:
    """Whether a norm's groups are larger than heads."""
    return value_of(norm, "x").width > int(norm.attributes["groups"]) * head_dim


def users_of(ops: Ops) -> defaultdict[Value, list[Op]]:
    """The ops that read each value. One with several results counts as a reader of those after the first."""
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
