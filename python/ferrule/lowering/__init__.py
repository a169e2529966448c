"""Graph to plan: fuse ops, pick a kernel for each, place barriers, lay out memory."""

from __future__ import annotations

from ..graph import ROWS, SEQUENCES, TOKENS, Graph, Input, Weight
from . import barriers, fusions, layout
from .choose import choose, row_classes
from .plan import Launch, Plan, RowClass
from .targets import MANY_ROWS, Target, cpu_target, metal_target


def lower(
    graph: Graph,
    target: Target,
    row_class: RowClass,
    *,
    logits: RowClass = "few_rows",
    kv_dtype: str = "f32",
    fuse: bool = True,
) -> Plan:
    """The plan of a step on `target`.

    `row_class` is that of the step's tokens, `logits` that of the rows whose logits are wanted. Without `fuse` every
    op has a launch of its own. Raises UnsupportedOp where the target has no kernel.
    """
    ops = fusions.absorb_latents(graph.ops)
    if target.backend == "cpu":
        ops = fusions.quantize_inputs(ops)
    if fuse:
        for fusion in fusions.CPU_FUSIONS if target.backend == "cpu" else fusions.METAL_FUSIONS:
            ops = fusion(ops)
    classes = row_classes(row_class, logits)
    launches = [choose(op, target, row_classes=classes, kv_dtype=kv_dtype) for op in ops]
    barriers.assign(launches)

    limits: dict[RowClass, int] = {"few_rows": target.few_rows, "many_rows": MANY_ROWS}
    max_dims = {TOKENS: limits[row_class], ROWS: limits[logits], SEQUENCES: limits[row_class]}
    assert graph.output is not None
    offsets, arena_bytes = layout.assign(launches, graph.output, max_dims)
    used = [operand for launch in launches for operand in launch.operands.values()]
    weights = list(dict.fromkeys(o for o in used if isinstance(o, Weight)))
    inputs = list(dict.fromkeys(o for o in used if isinstance(o, Input)))
    return Plan(graph, target, row_class, kv_dtype, launches, max_dims, offsets, arena_bytes, weights, inputs)


__all__ = ["Launch", "Plan", "RowClass", "Target", "cpu_target", "lower", "metal_target"]
