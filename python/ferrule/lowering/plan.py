"""A lowered graph: launches in order, each with its kernel, operands, parameters and barrier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .. import _core
from ..graph import Dim, Experts, Graph, Input, Operand, Value, Weight
from .targets import RowClass, Target

Params = Mapping[str, int | float]

SIGNATURES = _core.signatures()  # of ops, as their headers in csrc/params declare them
CHOICES = _core.parameter_values()  # parameter that chooses among several -> name of each choice -> its number


@dataclass(eq=False)
class Launch:
    """One kernel of a step. `operands` are named as in the op's signature (`csrc/params/<op>.h`), "out" among them."""

    kernel: str
    op: str
    operands: Mapping[str, Operand]
    params: Params
    rows: Dim
    stage: str
    layer: int | None
    barrier: bool = True


@dataclass(eq=False)
class Plan:
    """What an executor runs.

    `offsets` are bytes into the arena for every value but the outputs; `weights`, `tables` and `inputs` give the order
    in which operands refer to them; the matrices of a table are among the weights. `max_dims` bounds
    (tokens, rows, sequences) of a step; `outputs` are what it gives back.
    """

    graph: Graph
    target: Target
    row_class: RowClass
    kv_dtype: str
    launches: list[Launch]
    max_dims: dict[str, int]
    offsets: dict[Value, int]
    arena_bytes: int
    weights: list[Weight]
    tables: list[Experts]
    inputs: list[Input]
    outputs: list[Value]
