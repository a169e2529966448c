"""Runs kernels of metal/ on this machine's own GPU, as `metal_host.host.MetalHost` runs them on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from kernel_testing import ALIGNMENT, GUARD, POISON
from numpy.typing import NDArray

from ferrule import _core
from ferrule.engine.devices import METAL_LIBRARY

Memory = NDArray[np.uint8]


class Gpu:
    """The GPU that `device="metal"` uses. Operands lie in one memory, poison around them; each at a multiple of 64."""

    VARIANTS: ClassVar[tuple[dict[str, Any], ...]] = ({}, {})  # twice the same: races may show

    def __init__(self) -> None:
        self._executor = _core.MetalExecutor(str(METAL_LIBRARY), [])

    def table(self) -> dict[str, str]:
        """Names of the kernels in csrc/params/metal_kernels.h -> their ops."""
        return _core.metal_kernels()

    def run(self, kernel: str, operands: Sequence[Memory | None], params: bytes, rows: int, sequences: int) -> None:
        """Runs a kernel of the table on its signature's operands. Raises DeviceError, AssertionError."""
        places: dict[int, int] = {}  # by address
        end = GUARD
        for operand in operands:
            if operand is not None and operand.ctypes.data not in places:
                places[operand.ctypes.data] = end
                end += -(-operand.nbytes // ALIGNMENT) * ALIGNMENT + GUARD
        memory = _core.Cache(end)
        memory.array[:] = POISON
        present = [operand for operand in operands if operand is not None]
        spans = [slice(begin, begin + o.nbytes) for o in present for begin in [places[o.ctypes.data]]]
        for operand, span in zip(present, spans, strict=True):
            memory.array[span] = operand
        bound = [("none", 0, 0, 0) if o is None else ("cache", 0, places[o.ctypes.data], o.nbytes) for o in operands]
        launch = (kernel, bound, params, "tokens", False)
        program = _core.Program(self._executor, [launch], [], memory, 0, (rows, rows, sequences), 0, 0)
        program.run(rows, rows, sequences, [], [])
        for operand, span in zip(present, spans, strict=True):
            operand[:] = memory.array[span]
        for span in spans:
            memory.array[span] = POISON
        assert (memory.array == POISON).all(), f"{kernel} wrote outside its operands"
