"""Which launches must wait: those that read what an unfinished launch writes, or write what one reads or writes."""

from __future__ import annotations

from .. import _core
from ..graph import CacheLayer, Operand, StateLayer, Value
from .plan import Launch


def assign(launches: list[Launch]) -> None:
    """Sets `barrier` on every launch; without one it may run beside the launches before it."""
    signatures = _core.signatures()
    read: set[Operand] = set()
    written: set[Operand] = set()
    for launch in launches:
        access = {name: kind for name, kind, _ in signatures[launch.op][2]}
        shared = {name: o for name, o in launch.operands.items() if isinstance(o, Value | CacheLayer | StateLayer)}
        reads = {o for name, o in shared.items() if access[name] != "write"}
        writes = {o for name, o in shared.items() if access[name] != "read"}
        launch.barrier = bool(reads & written or writes & (read | written))
        if launch.barrier:
            read, written = set(), set()
        read |= reads
        written |= writes
