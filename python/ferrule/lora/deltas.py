"""What an adapter adds to the products of a graph."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..architectures import hoisted
from ..checkpoint import Adapter, Checkpoint, StoredTensor
from ..checkpoint.adapters import LowRank
from ..checkpoint.peft_config import MERGE
from ..errors import AdapterError
from ..graph import Experts, Graph, Op, Weight
from .base import stored_rows
from .matrices import (
    F32,
    Matrix,
    embeddings,
    made,
    matrices,
    matrix_of,
    matrix_shapes,
    of_latents,
    rows_of,
    table_of,
    values,
)


@dataclass(frozen=True, eq=False)
class Delta:
    """What an adapter adds to an op's product W x: B (A x), B being the op's rows of it.

    `factors` [n_out] then scale the columns of the sum; None where an adapter has no magnitudes.
    """

    a: Matrix
    b: Matrix
    factors: Weight | None


@dataclass(frozen=True, eq=False)
class _LowRank:
    """A, B times the scale, and magnitudes of one matrix; rows in the order of the model's file."""

    a: StoredTensor
    b: F32
    magnitude: F32 | None

    def factors(self, weight: F32, rows: Any) -> F32:
        """The magnitudes by the norms of rows of W + B A, of which `weight` are those of W."""
        assert self.magnitude is not None
        norms: F32 = np.linalg.norm(weight + self.b[rows] @ values(self.a), axis=1).astype(np.float32)
        factors: F32 = self.magnitude[rows] / norms
        return factors


class Deltas:
    """What an adapter adds to the matrices of a graph. Raises AdapterError where it does not fit them."""

    def __init__(self, graph: Graph, checkpoint: Checkpoint, adapter: Adapter) -> None:
        self._path = adapter.path
        self._tables = embeddings(graph)
        self._a: dict[tuple[StoredTensor, ...], Matrix] = {}
        self._low_ranks: dict[str, _LowRank] = {}
        shapes = matrix_shapes(graph)
        for name, delta in adapter.deltas.items():
            module = hoisted(f"{name}.weight").removesuffix(".weight")
            if module in self._low_ranks:
                raise AdapterError(f"another tensor stands for {module}, too", path=adapter.path, tensor=delta.b.name)
            _refuse_misshapen(module, delta, shapes, checkpoint, adapter)
            self._low_ranks[module] = _in_order_of_file(module, delta, checkpoint, adapter)

    def of(self, op: Op) -> Delta | None:
        """What is added to the op's result; None where nothing is.

        Raises AdapterError for experts of one layer with factors of several ranks, and for magnitudes of experts and
        embeddings.
        """
        of_op = matrices(op, self._tables)
        found = [self._low_ranks[name] for name, _ in of_op if name in self._low_ranks]
        if not found:
            return None
        if op.kind != "linear":
            self._refuse_magnitudes(of_op)
        stored = tuple(low_rank.a for low_rank in found)
        if len(found) < len(of_op) or len({(a.shape, a.format) for a in stored}) > 1:
            raise AdapterError(
                f"not all experts of layer {op.layer} have factors of one rank and type",
                path=self._path,
                tensor=stored[0].name,
                expected=f"{len(of_op)} of {list(stored[0].shape)}",
                found=str(len(found)),
            )
        if stored not in self._a and op.kind == "embedding":
            self._a[stored] = made(stored[0].name, values(stored[0]).T)
        elif stored not in self._a:
            self._a[stored] = matrix_of(op, [Weight(a.name, a.shape, a.format, a.data) for a in stored])
        rows = [low_rank.b[rows_of(weight)] for low_rank, (_, weight) in zip(found, of_op, strict=True)]
        b = matrix_of(op, [made(f"{a.name} b", part) for a, part in zip(stored, rows, strict=True)])
        factors = None
        if found[0].magnitude is not None:
            _, weight = of_op[0]
            factors = made(f"{weight.name} magnitudes", found[0].factors(values(weight), rows_of(weight)))
        return Delta(self._a[stored], b, factors)

    def copies(self, op: Op) -> dict[str, Experts]:
        """k_up and v_up of latent attention with their deltas, in float32; nothing where they have none."""
        k_up, v_up = (op.operands[name] for name in ("k_up", "v_up"))
        assert isinstance(k_up, Experts)
        assert isinstance(v_up, Experts)
        if (name := of_latents(v_up)) not in self._low_ranks:
            return {}
        low_rank = self._low_ranks[name]
        heads, v_dim, rank = v_up.shape
        of_keys, of_values = (np.stack([values(w) for w in part.matrices]) for part in (k_up, v_up))
        # Of each head, rows of keys, then of values.
        whole = np.concatenate([of_keys.swapaxes(1, 2), of_values], axis=1).reshape(-1, rank)
        changed = whole + low_rank.b @ values(low_rank.a)
        if low_rank.magnitude is not None:
            changed *= low_rank.factors(whole, slice(None))[:, None]
        by_head = changed.reshape(heads, -1, rank)
        return {"k_up": table_of(k_up, by_head[:, :-v_dim].swapaxes(1, 2)), "v_up": table_of(v_up, by_head[:, -v_dim:])}

    def _refuse_magnitudes(self, of_op: list[tuple[str, Weight]]) -> None:
        for name, _ in of_op:
            if name in self._low_ranks and self._low_ranks[name].magnitude is not None:
                raise AdapterError(
                    "magnitudes of experts and embeddings are not supported", path=self._path, tensor=name, hint=MERGE
                )


def _refuse_misshapen(
    module: str, delta: LowRank, shapes: Mapping[str, tuple[int, int]], checkpoint: Checkpoint, adapter: Adapter
) -> None:
    """Raises where the model has no such matrix, or one of another shape."""
    hint = f"Give the model that the adapter was trained on, not {checkpoint.path}"
    if module not in shapes:
        near = difflib.get_close_matches(module, shapes, 3)
        raise AdapterError(
            "the model has no product with such a matrix",
            path=adapter.path,
            tensor=delta.b.name,
            expected=f"one such as {' or '.join(near)}" if near else None,
            hint=hint,
        )
    n_out, n_in = shapes[module]
    if (delta.b.shape[0], delta.a.shape[1]) != (n_out, n_in):
        raise AdapterError(
            "the adapter is for a matrix of another shape",
            path=adapter.path,
            tensor=delta.b.name,
            expected=f"{n_out} x {n_in}",
            found=f"{delta.b.shape[0]} x {delta.a.shape[1]}",
            hint=hint,
        )
    if delta.magnitude is not None and delta.magnitude.shape != (n_out,):
        raise AdapterError(
            "the magnitudes are not as many as the matrix has rows",
            path=adapter.path,
            tensor=module,
            expected=str(n_out),
            found=str(list(delta.magnitude.shape)),
        )


def _in_order_of_file(module: str, delta: LowRank, checkpoint: Checkpoint, adapter: Adapter) -> _LowRank:
    rows = stored_rows(module, delta.b.shape[0], checkpoint, adapter)
    b = np.float32(delta.scale) * values(delta.b)[rows]
    return _LowRank(delta.a, b, None if delta.magnitude is None else values(delta.magnitude)[rows])
