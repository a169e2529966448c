"""Puts a LoRA adapter (Hu et al. 2021) into a recorded graph: W x becomes W x + scale * B (A x).

A delta is two products of its own, in stages named "<stage> lora", so weights stay as the file holds them. Only the
matrices that attention over latents applies within its kernels get theirs in a float32 copy.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Set
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from .architectures import Architecture, hoisted
from .checkpoint import Adapter, Checkpoint, StoredTensor
from .checkpoint.gguf_names import hf_rows, is_converted
from .errors import AdapterError
from .formats import FORMATS
from .graph import Experts, Graph, Op, Operand, Value, Weight

Matrix = Weight | Experts
Factors = tuple[StoredTensor, NDArray[np.float32]]  # A, and B times the scale

_OF_EXPERT = re.compile(r"(.*\.experts)\.(\w+?)(?:\.weight)?\[(\d+)\]")  # one of a tensor that holds all
_OF_LATENTS = re.compile(r"\.[kv]_b_proj(?:\.weight)?(?:\[\d+\])?$")  # a part of kv_b_proj


@dataclass(frozen=True, eq=False)
class _Product:
    """A product whose delta is still to be added: its op, A x, and its rows of B."""

    op: Op
    low: Value
    b: Matrix

    def add_delta(self, g: Graph, to: Value) -> Value:
        """To + B (A x)."""
        with g.layer(self.op.layer), g.stage(f"{self.op.stage} lora"):
            return g.add(to, _times(g, self.op, self.low, self.b, **self.op.attributes))


def adapt(architecture: Architecture, checkpoint: Checkpoint, adapter: Adapter) -> Architecture:
    """The architecture that was recorded from `checkpoint`, with the adapter in its graph.

    Raises AdapterError where the adapter does not fit the model.
    """
    _refuse_other_base(checkpoint, adapter)
    old = architecture.graph
    new = replace(old, ops=[])
    deltas = _Deltas(old, checkpoint, adapter)
    readers = Counter(o for op in old.ops for o in op.operands.values() if isinstance(o, Value))
    lows: dict[tuple[Operand, Matrix], Value] = {}  # A x, which the parts of a matrix share
    waiting: dict[Value, _Product] = {}  # by W x
    sums: dict[Operand, Value] = {}  # W x + B (A x), likewise

    for op in old.ops:
        read = dict.fromkeys(o for o in op.operands.values() if isinstance(o, Value) and o in waiting)
        # A residual is added before the delta, so that products take in both additions.
        later = [waiting.pop(o) for o in read if op.kind == "add" and readers[o] == 1]
        sums |= {o: waiting.pop(o).add_delta(new, o) for o in read if o in waiting}
        op = replace(op, operands={name: sums.get(o, o) for name, o in op.operands.items()})
        if op.kind == "latent_attention":
            op = replace(op, operands={**op.operands, **deltas.copies(op)})
        new.ops.append(op)
        for product in later:
            assert op.out is not None
            sums[op.out] = product.add_delta(new, sums.get(op.out, op.out))
        if (factors := deltas.of(op)) is not None:
            assert op.out is not None
            a, b = factors
            key = op.operands["x"], a
            if key not in lows:
                with new.layer(op.layer), new.stage(f"{op.stage} lora"):
                    lows[key] = _times(new, op, op.operands["x"], a)
            waiting[op.out] = _Product(op, lows[key], b)
    sums |= {o: product.add_delta(new, o) for o, product in waiting.items()}
    assert old.output is not None
    new.output = sums.get(old.output, old.output)
    return replace(architecture, graph=new)


def _times(g: Graph, op: Op, x: Operand, matrix: Matrix, *, weighted: bool = False, **_: object) -> Value:
    """X times a matrix or, in a mixture, that of each chosen expert."""
    assert isinstance(x, Value)
    if isinstance(matrix, Weight):
        return g.linear(x, matrix)
    routes = op.operands["routes"]
    assert isinstance(routes, Value)
    return g.expert_linear(x, routes, matrix, weighted=weighted)


class _Deltas:
    """What an adapter adds to the matrices of a graph, checked against their shapes."""

    def __init__(self, graph: Graph, checkpoint: Checkpoint, adapter: Adapter) -> None:
        self._path = adapter.path
        self._embeddings = _embeddings(graph)
        self._a: dict[tuple[StoredTensor, ...], Matrix] = {}
        self._factors: dict[str, Factors] = {}
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
            b = np.float32(delta.scale) * _decoded(delta.b)
            self._factors[module] = delta.a, _in_stored_order(b, module, checkpoint, adapter)

    def of(self, op: Op) -> tuple[Matrix, Matrix] | None:
        """A, and the op's rows of B; None where the adapter adds nothing to its result."""
        matrices = _matrices(op, self._embeddings)
        found = [self._factors[name] for name, _ in matrices if name in self._factors]
        if not found:
            return None
        if len(found) < len(matrices) or len({(a.shape, a.format) for a, _ in found}) > 1:
            raise AdapterError(
                f"not all experts of layer {op.layer} have factors of one rank and type",
                path=self._path,
                tensor=found[0][0].name,
                expected=f"{len(matrices)} of {list(found[0][0].shape)}",
                found=str(len(found)),
            )
        stored = tuple(a for a, _ in found)
        if stored not in self._a:
            self._a[stored] = _matrix(op, [Weight(a.name, a.shape, a.format, a.data) for a in stored])
        rows = [b if w.rows is None else b[w.rows] for (_, b), (_, w) in zip(found, matrices, strict=True)]
        return self._a[stored], _matrix(op, [_made(f"{a.name} b", b) for a, b in zip(stored, rows, strict=True)])

    def copies(self, op: Op) -> dict[str, Experts]:
        """K_up and v_up of latent attention with their deltas, in float32; nothing where they have none."""
        k_up, v_up = (op.operands[name] for name in ("k_up", "v_up"))
        assert isinstance(k_up, Experts)
        assert isinstance(v_up, Experts)
        if (name := _of_latents(v_up)) not in self._factors:
            return {}
        a, b = self._factors[name]
        heads, v_dim, _ = v_up.shape
        deltas = (b @ _decoded(a)).reshape(heads, -1, a.shape[1])  # of a head: rows of keys, then of values
        keys, values = deltas[:, :-v_dim].swapaxes(1, 2), deltas[:, -v_dim:]
        return {"k_up": _sum(k_up, keys), "v_up": _sum(v_up, values)}


def _refuse_other_base(checkpoint: Checkpoint, adapter: Adapter) -> None:
    """Raises for a GGUF adapter of another architecture, or of a model that is not in GGUF."""
    if adapter.architecture is None:
        return
    if checkpoint.container != "gguf":
        raise AdapterError(
            "a GGUF adapter is for a GGUF model",
            path=adapter.path,
            found=f"{checkpoint.path}, in {checkpoint.container}",
            hint="Give the adapter's PEFT directory, or the model's GGUF file",
        )
    base = checkpoint.metadata["general.architecture"]
    if base != adapter.architecture:
        raise AdapterError(
            "the adapter is for another architecture",
            path=adapter.path,
            expected=f"{base}, as in {checkpoint.path}",
            found=adapter.architecture,
            hint="Give the model that the adapter was trained on",
        )


def _in_stored_order(
    b: NDArray[np.float32], name: str, checkpoint: Checkpoint, adapter: Adapter
) -> NDArray[np.float32]:
    """B with its rows in the order of the model's file."""
    if checkpoint.container != "gguf" or adapter.architecture is not None:
        return b
    architecture = checkpoint.metadata["general.architecture"]
    if is_converted(architecture, name):
        raise AdapterError(
            "GGUF files of this architecture hold the matrix in a form that the adapter does not fit",
            path=adapter.path,
            tensor=name,
            hint="Give the model as a Hugging Face directory, or the adapter as GGUF",
        )
    rows = hf_rows(architecture, name, len(b), checkpoint.config)
    return b if rows is None else b[rows]


def matrix_shapes(graph: Graph) -> dict[str, tuple[int, int]]:
    """[n_out, n_in] of every matrix that can have a delta, by Hugging Face's name without ".weight"."""
    shapes: dict[str, tuple[int, int]] = {}
    embeddings = _embeddings(graph)
    for op in graph.ops:
        for name, matrix in _matrices(op, embeddings):
            n_out = matrix.shape[0] if matrix.rows is None else int(max(matrix.rows)) + 1
            shapes[name] = max(n_out, shapes.get(name, (0, 0))[0]), matrix.shape[1]
        if op.kind == "latent_attention":
            k_up, v_up = (op.operands[name] for name in ("k_up", "v_up"))
            assert isinstance(k_up, Experts)
            assert isinstance(v_up, Experts)
            heads, v_dim, rank = v_up.shape
            shapes[_of_latents(v_up)] = heads * (k_up.shape[2] + v_dim), rank
    return shapes


def _embeddings(graph: Graph) -> Set[Operand]:
    """Tables of embeddings: a product with one is that of a tied head."""
    return {op.operands["table"] for op in graph.ops if op.kind == "embedding"}


def _matrices(op: Op, embeddings: Set[Operand]) -> list[tuple[str, Weight]]:
    """The matrices of a product, of a mixture one for each expert, with their names."""
    weight = op.operands.get("weight")
    if op.kind == "linear" and isinstance(weight, Weight):
        return [("lm_head" if weight in embeddings else _name(weight), weight)]
    if op.kind == "expert_linear" and isinstance(weight, Experts):
        return [_of_expert(matrix) for matrix in weight.matrices]
    return []


def _of_expert(weight: Weight) -> tuple[str, Weight]:
    """An expert's matrix and its name were it a tensor of its own, the halves of gate_up_proj being two."""
    name = _OF_EXPERT.sub(r"\1.\3.\2", _name(weight))
    if name.endswith(".gate_up_proj") and isinstance(weight.rows, range):
        half = "up_proj" if weight.rows.start else "gate_proj"
        return name.removesuffix("gate_up_proj") + half, replace(weight, rows=None)
    return name, weight


def _of_latents(v_up: Experts) -> str:
    """The name of the matrix from latents to keys and values, which may be stored as two."""
    return _OF_LATENTS.sub(".kv_b_proj", _name(v_up.matrices[0]))


def _name(weight: Weight) -> str:
    return hoisted(weight.name).removesuffix(".weight")


def _matrix(op: Op, weights: list[Weight]) -> Matrix:
    """One matrix, or the table of those of all experts, as the op has it."""
    return weights[0] if op.kind == "linear" else Experts(tuple(weights))


def _sum(matrices: Experts, deltas: NDArray[np.float32]) -> Experts:
    pairs = zip(matrices.matrices, deltas, strict=True)
    return Experts(tuple(_made(w.name, FORMATS[w.format].decode(w.data, w.shape) + delta) for w, delta in pairs))


def _made(name: str, values: NDArray[np.float32]) -> Weight:
    data = np.ascontiguousarray(values, np.float32)
    return Weight(name, data.shape, "F32", data.reshape(-1).view(np.uint8))


def _decoded(stored: StoredTensor) -> NDArray[np.float32]:
    return FORMATS[stored.format].decode(stored.data, stored.shape).astype(np.float32)
