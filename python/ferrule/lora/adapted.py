"""Records a model with an adapter: the graph as the architecture records it, rewritten product by product."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ..architectures import Architecture, record
from ..checkpoint import Adapter, Checkpoint
from ..graph import Graph, Input, Op, Operand, Value, Weight
from .base import refuse_other_base, refuse_tied, with_tensors
from .deltas import Deltas
from .matrices import Matrix, made, values


@dataclass(frozen=True, eq=False)
class _Product:
    """A product whose delta is still to be added: its op, A x, its rows of B, and what then scales the sum."""

    op: Op
    low: Value
    b: Matrix
    columns: Weight | None

    def add_delta(self, g: Graph, to: Value) -> Value:
        """To + B (A x), scaled."""
        with g.layer(self.op.layer), g.stage(f"{self.op.stage} lora"):
            total = g.add(to, _times(g, self.op, self.low, self.b, **self.op.attributes))
            return total if self.columns is None else g.scale_columns(total, self.columns)


def record_adapted(
    checkpoint: Checkpoint, adapter: Adapter | None, *, ignore_config_keys: Iterable[str] = ()
) -> Architecture:
    """As architectures.record, with an adapter where there is one.

    Raises AdapterError where it does not fit the model.
    """
    if adapter is None:
        return record(checkpoint, ignore_config_keys=ignore_config_keys)
    refuse_other_base(checkpoint, adapter)
    checkpoint = with_tensors(checkpoint, adapter)
    architecture = record(checkpoint, ignore_config_keys=ignore_config_keys)
    return replace(architecture, graph=_adapted(architecture.graph, checkpoint, adapter))


def _adapted(old: Graph, checkpoint: Checkpoint, adapter: Adapter) -> Graph:
    """The graph with the adapter's deltas."""
    refuse_tied(old, adapter)
    new = replace(old, ops=[])
    deltas = Deltas(old, checkpoint, adapter)
    readers = Counter(o for op in old.ops for o in op.operands.values() if isinstance(o, Value))
    lows: dict[tuple[Operand, Matrix], Value] = {}  # A x, which the parts of a matrix share
    waiting: dict[Value, _Product] = {}  # by W x
    sums: dict[Operand, Value] = {}  # W x + B (A x), likewise

    for op in old.ops:
        read = dict.fromkeys(o for o in op.operands.values() if isinstance(o, Value) and o in waiting)
        # A residual is added before the delta, so that products take in both additions.
        later = [waiting.pop(o) for o in read if op.kind == "add" and readers[o] == 1 and waiting[o].columns is None]
        sums |= {o: waiting.pop(o).add_delta(new, o) for o in read if o in waiting}
        op = replace(op, operands={name: sums.get(o, o) for name, o in op.operands.items()})
        if op.kind == "latent_attention":
            op = replace(op, operands={**op.operands, **deltas.copies(op)})
        columns = deltas.columns(op)
        if columns is not None and isinstance(bias := op.operands.get("bias"), Weight):
            op = replace(op, operands={**op.operands, "bias": made(bias.name, values(bias) / values(columns))})
        new.ops.append(op)
        for product in later:
            assert op.out is not None
            sums[op.out] = product.add_delta(new, sums.get(op.out, op.out))
        if (factors := deltas.of(op)) is not None:
            assert op.out is not None
            a, b = factors
            x = op.operands["tokens" if op.kind == "embedding" else "x"]
            key = x, a
            if key not in lows:
                with new.layer(op.layer), new.stage(f"{op.stage} lora"):
                    lows[key] = _times(new, op, x, a, **{**op.attributes, "weighted": False})
            waiting[op.out] = _Product(op, lows[key], b, columns)
    sums |= {o: product.add_delta(new, o) for o, product in waiting.items()}
    assert old.output is not None
    new.output = sums.get(old.output, old.output)
    return new


def _times(
    g: Graph, op: Op, x: Operand, matrix: Matrix, *, weighted: bool = False, scale: float = 1.0, **_: object
) -> Value:
    """X times a matrix or, in a mixture, that of each chosen expert; the rows of a table that x, an input, names."""
    if isinstance(x, Input):
        assert isinstance(matrix, Weight)
        return g.embedding(matrix, scale, index="positions" if x.name == "positions" else "tokens")
    assert isinstance(x, Value)
    if isinstance(matrix, Weight):
        return g.linear(x, matrix)
    routes = op.operands["routes"]
    assert isinstance(routes, Value)
    return g.expert_linear(x, routes, matrix, weighted=weighted)
