"""What this machine can do at most: the measure that speeds are shares of."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from .. import _core
from ..lowering.targets import Target
from .program import pack_params

_READ_BYTES = 512 << 20  # more than caches hold
_ROW_BYTES = 1 << 20
_PRODUCTS = 1 << 20  # of a row
_ROUNDS = 5


@dataclass(frozen=True)
class Limits:
    """Bytes read from memory, and multiplications and additions of int8 and of float32, per second."""

    read: float
    int8: float
    f32: float


def measure(target: Target, threads: int) -> Limits:
    """The best of a few rounds of `limit_*` (`csrc/params/limit.h`) on a CPU target."""
    allocated = np.ones(_READ_BYTES + 64, np.uint8)
    memory = allocated[-allocated.ctypes.data % 64 :][:_READ_BYTES]
    operands = [("input", 0, 0, 0), ("output", 0, 0, 0)]

    def per_second(kernel: str, rows: int, width: int, amount: float) -> float:
        program = _core.Program(
            _core.Executor(target.name, threads),
            [(kernel, operands, pack_params("limit", {"width": width}), "tokens", True)],
            [],
            _core.Cache(0),
            0,
            (rows, 1, 1),
            1,
            1,
        )
        out = np.empty((rows, 16), np.float32)
        best = float("inf")
        for _ in range(_ROUNDS):
            started = time.perf_counter()
            program.run(rows, 1, 1, [memory], [out])
            best = min(best, time.perf_counter() - started)
        return amount / best

    work = 16 * threads
    return Limits(
        read=per_second("limit_read", _READ_BYTES // _ROW_BYTES, _ROW_BYTES, _READ_BYTES),
        int8=per_second("limit_int8", work, _PRODUCTS, work * _PRODUCTS * 128.0),
        f32=per_second("limit_f32", work, _PRODUCTS, work * _PRODUCTS * 32.0),
    )
