"""Which launches must wait: those that read what an unfinished launch writes, or write what one reads or writes."""

from __future__ import annotations

from ..graph import CacheLayer, Operand, StateLayer, Value
from .plan import SIGNATURES, Launch

_ACCESS = {op: {name: access for name, access, _ in operands} for op, (_, _, operands) in SIGNATURES.items()}


def assign(launches: list[Launch]) -> None:
    """Sets `barrier` on every launch; without one it may run beside the launches before it."""
    read: set[Operand] = set()
    written: set[Operand] = set()
    for launch in launches:
        access = _ACCESS[launch.op]
        shared = {name: o for name, o in launch.operands.items() if isinstance(o, Value | CacheLayer | StateLayer)}
        reads = {o for name, o in shared.items() if access[name] != "write"}
        writes = {o for name, o in shared.items() if access[name] != "read"}
        launch.barrier = bool(reads & written or writes & (read | written))
        if launch.barrier:
            read, written = set(), set()
        read |= reads
        written |= writes
