"""Graph to plan: fuse ops, pick a kernel for each, place barriers, lay out memory."""

from __future__ import annotations

from collections.abc import Mapping

from ..graph import ROWS, SEQUENCES, TOKENS, Dim, Experts, Graph, Input, Op, Operand, Value, Weight
from . import barriers, fusions, layout, metal
from .choose import choose
from .op_list import Ops
from .plan import Launch, Plan
from .targets import RowClass, Target, cpu_target, metal_target


def lower(
    graph: Graph,
    target: Target,
    row_class: RowClass,
    *,
    logits: RowClass | None = None,
    expand: bool | None = None,
    kv_dtype: str = "f32",
    fuse: bool = True,
    keep: bool = False,
    sample: bool = False,
    allow_missing: bool = False,
) -> Plan:
    """The plan of a step on `target`.

    `row_class` is that of the step's tokens, `logits` that of the rows whose logits are wanted, by default one.
    `expand`: keys and values are expanded from latents, by default for many rows on the CPU. Without `fuse` every op
    has a launch of its own; `keep` makes every op's result an output. With `sample` the output is not logits but i32
    [rows, 1], a token drawn from each row of them as the step input `draws` says. Raises UnsupportedOp where the target
    has no kernel, unless `allow_missing`: such a plan can be shown, not run.
    """
    logits = logits or target.row_class(1)
    classes: dict[Dim, RowClass] = {TOKENS: row_class, ROWS: logits}
    if expand is None:
        expand = row_class == "many_rows" and target.backend == "cpu"
    ops = _rewritten(graph.ops, target, classes, expand=expand, fuse=fuse)
    assert graph.output is not None
    output = graph.output
    if sample:
        output = Value((ROWS, 1), "sample", "i32")
        operands: dict[str, Operand] = {"logits": graph.output, "draws": Input("draws", (ROWS, 4), "u32")}
        ops = [*ops, Op("sample", operands, {}, output, "sampling", None)]
    launches = [choose(op, target, row_classes=classes, kv_dtype=kv_dtype, allow_missing=allow_missing) for op in ops]
    barriers.assign(launches)

    tokens = target.most_rows(row_class)
    max_dims = {TOKENS: tokens, ROWS: target.most_rows(logits), SEQUENCES: tokens}
    made = {op.out for op in graph.ops if op.out is not None}
    outputs = [op.out for op in ops if op.out in made] if keep else [output]
    offsets, arena_bytes = layout.assign(launches, set(outputs), max_dims)
    used = list(dict.fromkeys(operand for launch in launches for operand in launch.operands.values()))
    tables = [o for o in used if isinstance(o, Experts)]
    weights = [o for o in used if isinstance(o, Weight)] + [matrix for table in tables for matrix in table.matrices]
    return Plan(
        graph,
        target,
        row_class,
        kv_dtype,
        launches,
        max_dims,
        offsets,
        arena_bytes,
        weights=list(dict.fromkeys(weights)),
        tables=tables,
        inputs=[o for o in used if isinstance(o, Input)],
        outputs=outputs,
    )


def _rewritten(ops: Ops, target: Target, classes: Mapping[Dim, RowClass], *, expand: bool, fuse: bool) -> Ops:
    """The ops as the target's kernels serve them."""
    ops = fusions.absorb_selections(ops) if expand else fusions.absorb_latents(ops)
    if target.backend == "cpu":
        ops = fusions.quantize_inputs(ops, target)
    if fuse:
        for fusion in fusions.CPU_FUSIONS if target.backend == "cpu" else metal.FUSIONS:
            ops = fusion(ops)
    if target.backend == "metal":
        many = classes[TOKENS] == "many_rows"
        ops = metal.linears(ops)
        ops = metal.order_experts(ops) if many else metal.split_attention(ops)
        if fuse and not many:
            ops = metal.norm_in_merge(ops)
        ops = metal.split_linears(ops, classes)
    return ops


__all__ = ["Launch", "Plan", "RowClass", "Target", "cpu_target", "lower", "metal_target"]
