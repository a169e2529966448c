"""Records a model with an adapter: the graph as the architecture records it, rewritten product by product."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ..architectures import Architecture, record
from ..checkpoint import Adapter, Checkpoint
from ..graph import Graph, Input, Op, Operand, Value, Weight
from .base import refuse_other_base, refuse_tied, with_tensors
from .deltas import Delta, Deltas
from .matrices import Matrix, made, values


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
    rewriting = _Rewriting(old, Deltas(old, checkpoint, adapter))
    for op in old.ops:
        rewriting.take(op)
    return rewriting.finished()


@dataclass(frozen=True, eq=False)
class _Product:
    """A product whose delta is still to be added: its op, A x, and the delta."""

    op: Op
    low: Value
    delta: Delta

    def add_delta(self, g: Graph, to: Value) -> Value:
        """to + B (A x), scaled."""
        with g.layer(self.op.layer), g.stage(f"{self.op.stage} lora"):
            total = g.add(to, _times(g, self.op, self.low, self.delta.b, **self.op.attributes))
            return total if self.delta.factors is None else g.scale_columns(total, self.delta.factors)


class _Rewriting:
    """A graph that is recorded anew, op by op, with deltas. They are added where a product's result is first read."""

    def __init__(self, old: Graph, deltas: Deltas) -> None:
        assert old.output is not None
        self._old_output = old.output
        self._graph = replace(old, ops=[])
        self._deltas = deltas
        self._readers = Counter(o for op in old.ops for o in op.operands.values() if isinstance(o, Value))
        self._lows: dict[tuple[Operand, Matrix], Value] = {}  # A x, which the parts of a matrix share
        self._waiting: dict[Value, _Product] = {}  # by W x
        self._sums: dict[Operand, Value] = {}  # W x + B (A x), likewise

    def take(self, op: Op) -> None:
        """Records the op, before it the deltas of what it reads, and remembers its own."""
        later = self._add_deltas_read_by(op)
        op = replace(op, operands={name: self._sums.get(o, o) for name, o in op.operands.items()})
        if op.kind == "latent_attention":
            op = replace(op, operands={**op.operands, **self._deltas.copies(op)})
        delta, bias = self._deltas.of(op), op.operands.get("bias")
        if delta is not None and delta.factors is not None and isinstance(bias, Weight):
            # The factors will scale the whole result, but are for W x alone.
            unscaled = made(bias.name, values(bias) / values(delta.factors))
            op = replace(op, operands={**op.operands, "bias": unscaled})
        self._graph.ops.append(op)
        for product in later:
            assert op.out is not None
            self._sums[op.out] = product.add_delta(self._graph, self._sums.get(op.out, op.out))
        if delta is not None:
            assert op.out is not None
            self._waiting[op.out] = _Product(op, self._low(op, delta), delta)

    def finished(self) -> Graph:
        """The new graph, with the deltas of what no op reads."""
        self._sums |= {o: product.add_delta(self._graph, o) for o, product in self._waiting.items()}
        self._graph.output = self._sums.get(self._old_output, self._old_output)
        return self._graph

    def _add_deltas_read_by(self, op: Op) -> list[_Product]:
        """Adds the deltas of what the op reads; returns those that are to be added to the op's own result instead.

        A residual is added before the delta, so that products take in both additions.
        """
        waiting = self._waiting
        read = dict.fromkeys(o for o in op.operands.values() if isinstance(o, Value) and o in waiting)
        is_alone = {o: op.kind == "add" and self._readers[o] == 1 and waiting[o].delta.factors is None for o in read}
        later = [waiting.pop(o) for o in read if is_alone[o]]
        self._sums |= {o: waiting.pop(o).add_delta(self._graph, o) for o in read if not is_alone[o]}
        return later

    def _low(self, op: Op, delta: Delta) -> Value:
        """A x."""
        x = op.operands["tokens" if op.kind == "embedding" else "x"]
        key = x, delta.a
        if key not in self._lows:
            with self._graph.layer(op.layer), self._graph.stage(f"{op.stage} lora"):
                self._lows[key] = _times(self._graph, op, x, delta.a, **{**op.attributes, "weighted": False})
        return self._lows[key]


def _times(
    g: Graph, op: Op, x: Operand, matrix: Matrix, *, weighted: bool = False, scale: float = 1.0, **_: object
) -> Value:
    """x times a matrix or, in a mixture, that of each chosen expert; the rows of a table that x, an input, names."""
    if isinstance(x, Input):
        assert isinstance(matrix, Weight)
        return g.embedding(matrix, scale, index="positions" if x.name == "positions" else "tokens")
    assert isinstance(x, Value)
    if isinstance(matrix, Weight):
        return g.linear(x, matrix)
    routes = op.operands["routes"]
    assert isinstance(routes, Value)
    return g.expert_linear(x, routes, matrix, weighted=weighted)
