"""The matrices of a graph that adapters may change, by Hugging Face's names."""

from __future__ import annotations

import re
from collections.abc import Set
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..architectures import hoisted
from ..checkpoint import StoredTensor
from ..formats import FORMATS
from ..graph import Experts, Graph, Op, Operand, Weight

Matrix = Weight | Experts
F32 = NDArray[np.float32]

_OF_EXPERT = re.compile(r"(.*\.experts)\.(\w+?)(?:\.weight)?\[(\d+)\]")  # one of a tensor that holds all
_OF_LATENTS = re.compile(r"\.[kv]_b_proj(?:\.weight)?(?:\[\d+\])?$")  # a part of kv_b_proj


def matrix_shapes(graph: Graph) -> dict[str, tuple[int, int]]:
    """[n_out, n_in] of every matrix that can have a delta, by Hugging Face's name without ".weight"."""
    shapes: dict[str, tuple[int, int]] = {}
    tables = embeddings(graph)
    for op in graph.ops:
        for name, matrix in matrices(op, tables):
            n_out = matrix.shape[0] if matrix.rows is None else int(max(matrix.rows)) + 1
            shapes[name] = max(n_out, shapes.get(name, (0, 0))[0]), matrix.shape[1]
        if op.kind == "latent_attention":
            k_up, v_up = (op.operands[name] for name in ("k_up", "v_up"))
            assert isinstance(k_up, Experts)
            assert isinstance(v_up, Experts)
            heads, v_dim, rank = v_up.shape
            shapes[of_latents(v_up)] = heads * (k_up.shape[2] + v_dim), rank
    return shapes


def embeddings(graph: Graph) -> Set[Operand]:
    """Tables of embeddings: a product with one is that of a tied head."""
    return {op.operands["table"] for op in graph.ops if op.kind == "embedding"}


def matrices(op: Op, tables: Set[Operand]) -> list[tuple[str, Weight]]:
    """The matrices of a product, of a mixture one for each expert, with their names. An embedding's is transposed."""
    weight = op.operands.get("weight")
    if op.kind == "linear" and isinstance(weight, Weight):
        return [("lm_head" if weight in tables else _name(weight), weight)]
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


def of_latents(v_up: Experts) -> str:
    """The name of the matrix from latents to keys and values, which may be stored as two."""
    return _OF_LATENTS.sub(".kv_b_proj", _name(v_up.matrices[0]))


def _name(weight: Weight) -> str:
    return hoisted(weight.name).removesuffix(".weight")


def matrix_of(op: Op, weights: list[Weight]) -> Matrix:
    """One matrix, or the table of those of all experts, as the op has it."""
    return Experts(tuple(weights)) if op.kind == "expert_linear" else weights[0]


def table_of(like: Experts, stack: F32) -> Experts:
    """Matrices made of a stack [n, n_out, n_in], with the names of others."""
    return Experts(tuple(made(w.name, matrix) for w, matrix in zip(like.matrices, stack, strict=True)))


def rows_of(weight: Weight) -> Any:
    """The index of a weight's rows in its stored matrix."""
    return slice(None) if weight.rows is None else weight.rows


def made(name: str, array: F32) -> Weight:
    """A float32 weight of these values."""
    data = np.ascontiguousarray(array, np.float32)
    return Weight(name, data.shape, "F32", data.reshape(-1).view(np.uint8))


def values(stored: Weight | StoredTensor) -> F32:
    """The values of a matrix or vector."""
    return FORMATS[stored.format].decode(stored.data, stored.shape).astype(np.float32)
