"""Compares what a target computes for every op of a graph with the NumPy reference, and names the first difference."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass

import numpy as np

from ..graph import Graph, Op, Value
from ..lowering import Target, lower
from ..reference import Array, Reference
from .devices import executor
from .kv_cache import KVCache, Sequence
from .program import compile_plan
from .step_inputs import Chunk, step_inputs

TOLERANCE = 1e-2  # int8 and f16 on the way, through many layers, cost about a tenth of it


@dataclass(frozen=True)
class Comparison:
    """One op: `error` is the norm of the difference by the norm of the reference's result, NaN where it has NaN."""

    op: Op
    kernel: str
    error: float

    def __str__(self) -> str:
        where = f"layer {self.op.layer}, " if self.op.layer is not None else ""
        return f"{where}stage {self.op.stage}: {self.op.kind} by {self.kernel} differs by {self.error:.2g}"


def trace(graph: Graph, tokens: Seq[int], *, watch: Callable[[int], None] = lambda done: None) -> dict[Value, Array]:
    """The reference's result of every op after one step over `tokens`; `watch` hears how many there are so far."""
    results: dict[Value, Array] = {}

    def observe(op: Op, result: Array) -> None:
        assert op.out is not None
        results[op.out] = result
        watch(len(results))

    Reference(graph, observe=observe).forward(tokens)
    return results


def compare(
    graph: Graph,
    target: Target,
    tokens: Seq[int],
    expected: dict[Value, Array],
    *,
    threads: int = 1,
    kv_dtype: str = "f32",
) -> list[Comparison]:
    """Runs the graph on `target` without fusions and compares every op that has a result, in order.

    Errors of earlier ops are carried on: the first comparison that is off names the fault. Tokens beyond the most of a
    step are taken by further ones.
    """
    row_class = target.row_class(len(tokens))
    plan = lower(graph, target, row_class, logits=row_class, fuse=False, keep=True, kv_dtype=kv_dtype)
    cache = KVCache(graph.caches, dtype=kv_dtype, positions=len(tokens), states=graph.states)
    sequence = Sequence()
    cache.grow(sequence, len(tokens))
    program = compile_plan(plan, executor(target, graph, threads), cache)
    found = [np.full((len(tokens), value.width), np.nan, np.float32) for value in plan.outputs]
    most = target.most_rows(row_class)
    for begin in range(0, len(tokens), most):
        chunk = Chunk(sequence, tokens[begin : begin + most], "all", len(tokens))
        step = step_inputs([chunk])
        results_of_step = [result[begin : begin + most] for result in found]
        program.run(step.tokens, step.rows, step.sequences, [step.arrays[i.name] for i in plan.inputs], results_of_step)
        sequence.tokens.extend(chunk.tokens)

    results = dict(zip(plan.outputs, found, strict=True))
    kernels = {launch.operands["out"]: launch.kernel for launch in plan.launches if "out" in launch.operands}
    return [
        Comparison(op, kernels[op.out], _error(op, results[op.out], expected[op.out]))
        for op in graph.ops
        if op.out in results
    ]


def first_divergence(comparisons: Seq[Comparison], tolerance: float = TOLERANCE) -> Comparison | None:
    """The first op whose result is off by more than `tolerance`, or is not a number."""
    return next((c for c in comparisons if not c.error <= tolerance), None)


def _error(op: Op, found: Array, expected: Array) -> float:
    if op.kind == "select_positions":  # in any order
        found, expected = np.sort(found), np.sort(expected)
    return float(np.linalg.norm(found - expected) / max(np.linalg.norm(expected), np.finfo(np.float32).tiny))
