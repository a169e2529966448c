"""Puts a LoRA adapter (Hu et al. 2021) into a recorded graph: W x becomes W x + scale * B (A x).

A delta is two products of its own, in stages named "<stage> lora", so weights stay as the file holds them. Only the
matrices that attention over latents applies within its kernels get theirs in a float32 copy. With magnitudes (DoRA, Liu
et al. 2024) the sum is scaled: m / norm(W + scale * B A) for each row of that matrix is computed here.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Set
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .architectures import Architecture, hoisted, record
from .checkpoint import Adapter, Checkpoint, StoredTensor
from .checkpoint.adapters import MERGE
from .checkpoint.gguf_names import hf_rows, is_converted, vocabulary_tensors
from .errors import AdapterError
from .formats import FORMATS
from .graph import Experts, Graph, Input, Op, Operand, Value, Weight

Matrix = Weight | Experts
F32 = NDArray[np.float32]

_OF_EXPERT = re.compile(r"(.*\.experts)\.(\w+?)(?:\.weight)?\[(\d+)\]")  # one of a tensor that holds all
_OF_LATENTS = re.compile(r"\.[kv]_b_proj(?:\.weight)?(?:\[\d+\])?$")  # a part of kv_b_proj


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
        norms: F32 = np.linalg.norm(weight + self.b[rows] @ _decoded(self.a), axis=1).astype(np.float32)
        columns: F32 = self.magnitude[rows] / norms
        return columns


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
    _refuse_other_base(checkpoint, adapter)
    checkpoint = _with_tensors(checkpoint, adapter)
    architecture = record(checkpoint, ignore_config_keys=ignore_config_keys)
    return replace(architecture, graph=_adapted(architecture.graph, checkpoint, adapter))


def _adapted(old: Graph, checkpoint: Checkpoint, adapter: Adapter) -> Graph:
    """The graph with the adapter's deltas."""
    _refuse_tied(old, adapter)
    new = replace(old, ops=[])
    deltas = _Deltas(old, checkpoint, adapter)
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
            op = replace(op, operands={**op.operands, "bias": _made(bias.name, _values(bias) / _values(columns))})
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


class _Deltas:
    """What an adapter adds to the matrices of a graph, checked against their shapes."""

    def __init__(self, graph: Graph, checkpoint: Checkpoint, adapter: Adapter) -> None:
        self._path = adapter.path
        self._embeddings = _embeddings(graph)
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
            rows = _stored_rows(module, n_out, checkpoint, adapter)
            magnitude = None if delta.magnitude is None else _decoded(delta.magnitude)
            if magnitude is not None and magnitude.shape != (n_out,):
                raise AdapterError(
                    "the magnitudes are not as many as the matrix has rows",
                    path=adapter.path,
                    tensor=module,
                    expected=str(n_out),
                    found=str(list(magnitude.shape)),
                )
            b = np.float32(delta.scale) * _decoded(delta.b)[rows]
            self._factors[module] = _Factors(delta.a, b, None if magnitude is None else magnitude[rows])

    def of(self, op: Op) -> tuple[Matrix, Matrix] | None:
        """A, and the op's rows of B; None where the adapter adds nothing to its result."""
        matrices = _matrices(op, self._embeddings)
        found = [self._factors[name] for name, _ in matrices if name in self._factors]
        if not found:
            return None
        stored = tuple(factors.a for factors in found)
        if len(found) < len(matrices) or len({(a.shape, a.format) for a in stored}) > 1:
            raise AdapterError(
                f"not all experts of layer {op.layer} have factors of one rank and type",
                path=self._path,
                tensor=stored[0].name,
                expected=f"{len(matrices)} of {list(stored[0].shape)}",
                found=str(len(found)),
            )
        if stored not in self._a and op.kind == "embedding":
            self._a[stored] = _made(stored[0].name, _decoded(stored[0]).T)
        elif stored not in self._a:
            self._a[stored] = _matrix(op, [Weight(a.name, a.shape, a.format, a.data) for a in stored])
        rows = [factors.b[_rows(weight)] for factors, (_, weight) in zip(found, matrices, strict=True)]
        return self._a[stored], _matrix(op, [_made(f"{a.name} b", b) for a, b in zip(stored, rows, strict=True)])

    def columns(self, op: Op) -> Weight | None:
        """What the sum of an op's product and its delta is scaled by; None where it is not."""
        for name, weight in _matrices(op, self._embeddings):
            factors = self._factors.get(name)
            if factors is None or factors.magnitude is None:
                continue
            if op.kind != "linear":
                raise AdapterError(
                    "magnitudes of experts and embeddings are not supported", path=self._path, tensor=name, hint=MERGE
                )
            columns = factors.columns(_values(weight), _rows(weight))
            return None if columns is None else _made(f"{weight.name} magnitudes", columns)
        return None

    def copies(self, op: Op) -> dict[str, Experts]:
        """K_up and v_up of latent attention with their deltas, in float32; nothing where they have none."""
        k_up, v_up = (op.operands[name] for name in ("k_up", "v_up"))
        assert isinstance(k_up, Experts)
        assert isinstance(v_up, Experts)
        if (name := _of_latents(v_up)) not in self._factors:
            return {}
        factors = self._factors[name]
        heads, v_dim, rank = v_up.shape
        keys, values = (np.stack([_values(w) for w in part.matrices]) for part in (k_up, v_up))
        # Of each head, rows of keys, then of values.
        whole = np.concatenate([keys.swapaxes(1, 2), values], axis=1).reshape(-1, rank)
        columns = factors.columns(whole, slice(None))
        whole = (whole + factors.b @ _decoded(factors.a)) * (1 if columns is None else columns[:, None])
        by_head = whole.reshape(heads, -1, rank)
        return {"k_up": _table(k_up, by_head[:, :-v_dim].swapaxes(1, 2)), "v_up": _table(v_up, by_head[:, -v_dim:])}


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


def _refuse_tied(graph: Graph, adapter: Adapter) -> None:
    """Raises where an embedding that is also the head is replaced: PEFT's head then stays as it was."""
    for table in _embeddings(graph) & {op.operands.get("weight") for op in graph.ops}:
        if isinstance(table, Weight) and hoisted(table.name) in map(hoisted, adapter.tensors):
            raise AdapterError(
                "the adapter replaces an embedding to which the head is tied",
                path=adapter.path,
                tensor=table.name,
                hint=MERGE,
            )


def _stored_rows(name: str, n: int, checkpoint: Checkpoint, adapter: Adapter) -> NDArray[np.intp] | slice:
    """Which of the adapter's n rows each row of the matrix in the model's file is."""
    if checkpoint.container != "gguf" or adapter.architecture is not None:
        return slice(None)
    architecture = checkpoint.metadata["general.architecture"]
    if is_converted(architecture, name):
        raise AdapterError(
            "GGUF files of this architecture hold the matrix in a form that the adapter does not fit",
            path=adapter.path,
            tensor=name,
            hint="Give the model as a Hugging Face directory, or the adapter as GGUF",
        )
    rows = hf_rows(architecture, name, n, checkpoint.config)
    return slice(None) if rows is None else rows


def _with_tensors(checkpoint: Checkpoint, adapter: Adapter) -> Checkpoint:
    """The checkpoint with those tensors that the adapter holds whole."""
    names = {hoisted(name): name for name in checkpoint.tensors}
    replaced = {}
    for name, tensor in adapter.tensors.items():
        stored = names.get(hoisted(name))
        if stored is None or checkpoint.tensors[stored].shape != tensor.shape:
            found = "none" if stored is None else str(list(checkpoint.tensors[stored].shape))
            raise AdapterError(
                "the model has no tensor of that name and shape for the adapter to replace",
                path=adapter.path,
                tensor=tensor.name,
                expected=f"{name} {list(tensor.shape)} in {checkpoint.path}",
                found=found,
                hint="Give the model that the adapter was trained on",
            )
        if checkpoint.container == "gguf" and name not in vocabulary_tensors(
            checkpoint.metadata["general.architecture"]
        ):
            raise AdapterError(
                "the adapter replaces a tensor that GGUF files may hold in another form",
                path=adapter.path,
                tensor=tensor.name,
                hint="Give the model as a Hugging Face directory",
            )
        replaced[stored] = replace(tensor, name=stored)
    return replace(checkpoint, tensors={**checkpoint.tensors, **replaced})


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
    """The matrices of a product, of a mixture one for each expert, with their names. An embedding's is transposed."""
    weight = op.operands.get("weight")
    if op.kind == "linear" and isinstance(weight, Weight):
        return [("lm_head" if weight in embeddings else _name(weight), weight)]
    table = op.operands.get("table")
    if op.kind == "embedding" and isinstance(table, Weight):
        return [(_name(table), replace(table, shape=table.shape[::-1]))]
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
    return Experts(tuple(weights)) if op.kind == "expert_linear" else weights[0]


def _table(like: Experts, values: F32) -> Experts:
    """Matrices made of values [n, n_out, n_in], with the names of others."""
    return Experts(tuple(_made(w.name, matrix) for w, matrix in zip(like.matrices, values, strict=True)))


def _rows(weight: Weight) -> Any:
    """The index of a weight's rows in its stored matrix."""
    return slice(None) if weight.rows is None else weight.rows


def _made(name: str, values: F32) -> Weight:
    data = np.ascontiguousarray(values, np.float32)
    return Weight(name, data.shape, "F32", data.reshape(-1).view(np.uint8))


def _values(weight: Weight) -> F32:
    return FORMATS[weight.format].decode(weight.data, weight.shape).astype(np.float32)


def _decoded(stored: StoredTensor) -> F32:
    return FORMATS[stored.format].decode(stored.data, stored.shape).astype(np.float32)
