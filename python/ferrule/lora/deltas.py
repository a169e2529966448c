"""What an adapter adds to the products of a graph."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..architectures import hoisted
from ..checkpoint import Adapter, Checkpoint, StoredTensor
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
class _Factors:
    """Those of one matrix: A, B times the scale, magnitudes; rows in the order of the model's file."""

    a: StoredTensor
    b: F32
    magnitude: F32 | None

    def columns(self, weight: F32, rows: Any) -> F32 | None:
        """What the rows of W + B A, of which `weight` are those of W, are scaled by."""
        if self.magnitude is None:
            return None
        norms: F32 = np.linalg.norm(weight + self.b[rows] @ values(self.a), axis=1).astype(np.float32)
        columns: F32 = self.magnitude[rows] / norms
        return columns


class Deltas:
    """What an adapter adds to the matrices of a graph, checked against their shapes."""

    def __init__(self, graph: Graph, checkpoint: Checkpoint, adapter: Adapter) -> None:
        self._path = adapter.path
        self._tables = embeddings(graph)
        self._a: dict[tuple[StoredTensor, ...], Matrix] = {}
        self._factors: dict[str, _Factors] = {}
        shapes = matrix_shapes(graph)
        for name, delta in adapter.deltas.items():
            module = hoisted(f"{name}.weight").removesuffix(".weight")
            if module not in shapes:
                near = difflib.get_close_matches(module, shapes, 3)
                raise AdapterError(
                    "the model has no product with such a matrix",
                    path=adapter.path,
                    tensor=delta.b.name,
                    expected=f"one such as {' or '.join(near)}" if near else None,
                    hint=f"Give the model that the adapter was trained on, not {checkpoint.path}",
                )
            if module in self._factors:
                raise AdapterError(f"another tensor stands for {module}, too", path=adapter.path, tensor=delta.b.name)
            n_out, n_in = shapes[module]
            if (delta.b.shape[0], delta.a.shape[1]) != (n_out, n_in):
                raise AdapterError(
                    "the adapter is for a matrix of another shape",
                    path=adapter.path,
                    tensor=delta.b.name,
                    expected=f"{n_out} x {n_in}",
                    found=f"{delta.b.shape[0]} x {delta.a.shape[1]}",
                    hint=f"Give the model that the adapter was trained on, not {checkpoint.path}",
                )
            rows = stored_rows(module, n_out, checkpoint, adapter)
            magnitude = None if delta.magnitude is None else values(delta.magnitude)
            if magnitude is not None and magnitude.shape != (n_out,):
                raise AdapterError(
                    "the magnitudes are not as many as the matrix has rows",
                    path=adapter.path,
                    tensor=module,
                    expected=str(n_out),
                    found=str(list(magnitude.shape)),
                )
            b = np.float32(delta.scale) * values(delta.b)[rows]
            self._factors[module] = _Factors(delta.a, b, None if magnitude is None else magnitude[rows])

    def of(self, op: Op) -> tuple[Matrix, Matrix] | None:
        """A, and the op's rows of B; None where the adapter adds nothing to its result."""
        of_op = matrices(op, self._tables)
        found = [self._factors[name] for name, _ in of_op if name in self._factors]
        if not found:
            return None
        stored = tuple(factors.a for factors in found)
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
        rows = [factors.b[rows_of(weight)] for factors, (_, weight) in zip(found, of_op, strict=True)]
        return self._a[stored], matrix_of(op, [made(f"{a.name} b", b) for a, b in zip(stored, rows, strict=True)])

    def columns(self, op: Op) -> Weight | None:
        """What the sum of an op's product and its delta is scaled by; None where it is not."""
        for name, weight in matrices(op, self._tables):
            factors = self._factors.get(name)
            if factors is None or factors.magnitude is None:
                continue
            if op.kind != "linear":
                raise AdapterError(
                    "magnitudes of experts and embeddings are not supported", path=self._path, tensor=name, hint=MERGE
                )
            columns = factors.columns(values(weight), rows_of(weight))
            return None if columns is None else made(f"{weight.name} magnitudes", columns)
        return None

    def copies(self, op: Op) -> dict[str, Experts]:
        """K_up and v_up of latent attention with their deltas, in float32; nothing where they have none."""
        k_up, v_up = (op.operands[name] for name in ("k_up", "v_up"))
        assert isinstance(k_up, Experts)
        assert isinstance(v_up, Experts)
        if (name := of_latents(v_up)) not in self._factors:
            return {}
        factors = self._factors[name]
        heads, v_dim, rank = v_up.shape
        of_keys, of_values = (np.stack([values(w) for w in part.matrices]) for part in (k_up, v_up))
        # Of each head, rows of keys, then of values.
        whole = np.concatenate([of_keys.swapaxes(1, 2), of_values], axis=1).reshape(-1, rank)
        columns = factors.columns(whole, slice(None))
        whole = (whole + factors.b @ values(factors.a)) * (1 if columns is None else columns[:, None])
        by_head = whole.reshape(heads, -1, rank)
        return {"k_up": table_of(k_up, by_head[:, :-v_dim].swapaxes(1, 2)), "v_up": table_of(v_up, by_head[:, -v_dim:])}
