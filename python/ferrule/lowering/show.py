"""Prints a plan: the architecture → kernel map of a model on a target. Layers that run the same launches are folded."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import groupby, islice
from typing import Any

from ..formats import FORMATS
from ..graph import CacheLayer, Experts, Operand, StateLayer, Value, Weight
from .choose import missing
from .layout import cache_bytes, row_bytes
from .plan import Launch, Plan

# Parameters that the map leaves out: those in the columns of shape and dtype, and those that differ by layer.
HIDDEN = set(
    "k n n_b n_c width kv_heads head_dim v_head_dim planes plain rotated rank v_dim begin up_stride up_begin".split()
)


@dataclass(frozen=True)
class Entry:
    """One launch as a reader sees it. `bytes` are those moved by a step of one row or, many_rows, of a full chunk."""

    stage: str
    kernel: str
    exists: bool
    dtype: str
    shape: str
    params: str
    bytes: int
    barrier: bool


@dataclass(frozen=True)
class Group:
    """Layers that run the same launches, by number; none for launches outside the layers."""

    layers: tuple[int, ...]
    entries: tuple[Entry, ...]

    @property
    def times(self) -> int:
        """How often a step runs the launches."""
        return max(len(self.layers), 1)


def entries(plan: Plan) -> list[Group]:
    """The plan's launches by layer in order of first appearance, equal layers folded into one group."""
    rows = plan.max_dims["tokens"] if plan.row_class == "many_rows" else 1
    folded: dict[tuple[Entry, ...], list[int]] = {}
    groups: list[tuple[tuple[Entry, ...], list[int]]] = []
    for layer, launches in groupby(plan.launches, key=lambda launch: launch.layer):
        made = tuple(_entry(plan, launch, rows) for launch in launches)
        if layer is None:
            groups.append((made, []))
        elif made in folded:
            folded[made].append(layer)
        else:
            folded[made] = [layer]
            groups.append((made, folded[made]))
    return [Group(tuple(layers), made) for made, layers in groups]


def total_bytes(groups: Iterable[Group]) -> int:
    """Bytes moved by the step."""
    return sum(group.times * sum(entry.bytes for entry in group.entries) for group in groups)


def as_json(plan: Plan) -> dict[str, Any]:
    """The map as plain data."""
    groups = entries(plan)
    return {
        "target": plan.target.name,
        "backend": plan.target.backend,
        "rows": plan.row_class,
        "kv_dtype": plan.kv_dtype,
        "arena_bytes": plan.arena_bytes,
        "bytes": total_bytes(groups),
        "groups": [asdict(group) for group in groups],
    }


def as_text(plan: Plan) -> str:
    """The map as a table; kernels that are not written yet are marked with *."""
    groups = entries(plan)
    rows = f"{plan.max_dims['tokens']} rows" if plan.row_class == "many_rows" else "1 row"
    header, *lines = _table([entry for group in groups for entry in group.entries])
    out = [f"target {plan.target.name}, {plan.row_class} (bytes for {rows}), cache {plan.kv_dtype}", header]
    remaining = iter(lines)
    for group in groups:
        out += [_title(group), *islice(remaining, len(group.entries))]
    total = total_bytes(groups)
    if plan.row_class != "many_rows":
        moved = f"{total:,} bytes per token"
    else:
        moved = f"{total:,} bytes per step, {total // plan.max_dims['tokens']:,} per token"
    out += ["", f"{moved}, without the cache's history"]
    out.append(f"{len(plan.launches)} launches, {sum(launch.barrier for launch in plan.launches)} barriers (|)")
    if any(not entry.exists for group in groups for entry in group.entries):
        out.append("* not written yet")
    return "\n".join(out) + "\n"


def _table(shown: list[Entry]) -> list[str]:
    """A header and a line for each entry, behind | where it waits for the launches before it."""
    columns = ("stage", "kernel", "dtype", "shape", "bytes", "parameters")
    cells = [
        (e.stage, e.kernel + ("" if e.exists else " *"), e.dtype, e.shape, f"{e.bytes:,}", e.params) for e in shown
    ]
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]

    def line(mark: str, row: tuple[str, ...]) -> str:
        fields = zip(columns, row, widths, strict=True)
        padded = [cell.rjust(width) if name == "bytes" else cell.ljust(width) for name, cell, width in fields]
        return f"{mark} " + "  ".join(padded).rstrip()

    marks = ["|" if entry.barrier else " " for entry in shown]
    return [line(" ", columns), *map(line, marks, cells)]


def _title(group: Group) -> str:
    if not group.layers:
        return "-- outside the layers"
    if group.times == 1:
        return f"-- layer {group.layers[0]}"
    return f"-- layers {_ranges(group.layers)} ({group.times} times)"


def _ranges(numbers: tuple[int, ...]) -> str:
    """0, 1, 2, 5 -> "0-2, 5"."""
    runs: list[list[int]] = []
    for n in numbers:
        if runs and n == runs[-1][-1] + 1:
            runs[-1].append(n)
        else:
            runs.append([n])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def _entry(plan: Plan, launch: Launch, rows: int) -> Entry:
    n = rows if launch.rows == "tokens" else 1
    operands = launch.operands.values()
    matrices = [o.matrices[0] for o in operands if isinstance(o, Experts)]
    matrices = matrices or [o for o in operands if isinstance(o, Weight) and len(o.shape) == 2]
    cache = next((o for o in launch.operands.values() if isinstance(o, CacheLayer)), None)
    out = launch.operands.get("out", launch.operands.get("q"))
    if cache is not None:
        dtype, shape = plan.kv_dtype, f"{cache.kv_heads} x ({cache.head_dim} + {cache.v_head_dim})"
        dtype += f", {matrices[0].format}" if matrices else ""
    elif matrices:
        rows_of_all = " + ".join(str(matrix.shape[0]) for matrix in matrices)
        dtype, shape = matrices[0].format, f"{rows_of_all} x {matrices[0].shape[1]}"
    else:
        assert isinstance(out, Value)
        dtype, shape = out.dtype, str(out.width)
    neutral = {"scale": 1, "factor": 1, "groups": 1, "parts": 1}
    shown = {k: v for k, v in launch.params.items() if k not in HIDDEN and v != neutral.get(k, 0)}
    params = " ".join(f"{k}={v:g}" for k, v in shown.items())
    exists = missing(plan.target, launch.kernel, launch.op, launch.params) is None
    return Entry(
        launch.stage, launch.kernel, exists, dtype, shape, params, launch_bytes(plan, launch, n), launch.barrier
    )


def launch_bytes(plan: Plan, launch: Launch, rows: int, *, only: Operand | None = None) -> int:
    """Bytes that a launch over so many rows moves, without the cache's history; of one operand where named.

    What a product moves only where it is split is left out: that is little, and stays in a GPU's caches.
    """
    if launch.op == "linears_merge":
        return 0
    return sum(
        _bytes(launch, operand, rows, plan.kv_dtype)
        for name, operand in launch.operands.items()
        if (only is None or operand is only) and (launch.op, name) != ("linears", "partials")
    )


def _bytes(launch: Launch, operand: object, rows: int, kv_dtype: str) -> int:
    if isinstance(operand, Value):
        return rows * row_bytes(operand)
    if isinstance(operand, CacheLayer):
        return rows * cache_bytes(operand, kv_dtype)
    if isinstance(operand, Weight):
        if launch.op == "embedding":
            return rows * FORMATS[operand.format].row_bytes(operand.shape[-1])
        return operand.data.nbytes
    if isinstance(operand, Experts):
        live = rows * int(launch.params["slots"]) if launch.op == "expert_linear" else len(operand.matrices)
        return min(live, len(operand.matrices)) * operand.matrices[0].data.nbytes
    if isinstance(operand, StateLayer):
        return 4 * math.prod(operand.shape)
    return 0
