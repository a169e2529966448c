"""The executor's form of a plan: operands by number and place, parameters as bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import _core
from ..graph import CacheLayer, Experts, Input, Operand, StateLayer, Value, Weight
from ..lowering.layout import row_bytes
from ..lowering.plan import SIGNATURES, Launch, Params, Plan
from .devices import Executor
from .kv_cache import KVCache

_FIELD_DTYPES = {"u32": np.dtype("<u4"), "f32": np.dtype("<f4")}


def compile_plan(plan: Plan, executor: Executor, cache: KVCache) -> _core.Program:
    """The plan bound to an executor and a cache, validated.

    Raises ValueError that names the launch and what is wrong with it.
    """
    places, dims = _Places(plan, cache), plan.max_dims
    return _core.Program(
        executor,
        [_launch(launch, places) for launch in plan.launches],
        [weight.data for weight in plan.weights],
        cache.memory,
        plan.arena_bytes,
        (dims["tokens"], dims["rows"], dims["sequences"]),
        len(plan.inputs),
        len(plan.outputs),
        [[places.weights[matrix] for matrix in experts.matrices] for experts in plan.tables],
    )


def pack_params(op: str, params: Mapping[str, float]) -> bytes:
    """A parameter struct's bytes, fields placed as the op's header declares them."""
    size, fields, _ = SIGNATURES[op]
    packed = bytearray(size)
    for name, kind, offset in fields:
        packed[offset : offset + 4] = np.array(params[name], _FIELD_DTYPES[kind]).tobytes()
    return bytes(packed)


def _launch(launch: Launch, places: _Places) -> tuple[Any, ...]:
    operands = [places.of(launch.operands.get(name), launch.params) for name, _, _ in SIGNATURES[launch.op][2]]
    return launch.kernel, operands, pack_params(launch.op, launch.params), str(launch.rows), launch.barrier


class _Places:
    """Where a program finds the operands of a plan: (kind, index, offset, bytes), see `csrc/plan/plan.h`."""

    def __init__(self, plan: Plan, cache: KVCache) -> None:
        self._plan, self._cache = plan, cache
        self.weights = {weight: i for i, weight in enumerate(plan.weights)}
        self._tables = {experts: i for i, experts in enumerate(plan.tables)}
        self._inputs = {source: i for i, source in enumerate(plan.inputs)}
        self._outputs = {value: i for i, value in enumerate(plan.outputs)}

    def of(self, o: Operand | None, params: Params) -> tuple[str, int, int, int]:
        match o:
            case None:
                return "none", 0, 0, 0
            case Weight():
                return "weight", self.weights[o], 0, o.data.nbytes
            case Experts():
                read_by_a_row = int(params.get("slots", len(o.matrices)))
                return "table", self._tables[o], 0, read_by_a_row * o.matrices[0].data.nbytes
            case Input():
                return "input", self._inputs[o], 0, 0
            case CacheLayer() | StateLayer():
                return "cache", 0, *self._cache.places[o]
            case Value() if o in self._outputs:
                return "output", self._outputs[o], 0, 0
            case Value():
                rows = self._plan.max_dims[str(o.shape[0])]
                return "arena", 0, self._plan.offsets[o], row_bytes(o) * rows
