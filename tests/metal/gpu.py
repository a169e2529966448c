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
_ABSENT = np.full(ALIGNMENT, POISON, np.uint8)  # stands in tables for what nobody reads


class Gpu:
    """The GPU that `device="metal"` uses. Operands lie in one memory, poison around them; each at a multiple of 64."""

    VARIANTS: ClassVar[tuple[dict[str, Any], ...]] = ({}, {})  # twice the same: races may show

    def __init__(self) -> None:
        self._executor = _core.MetalExecutor(str(METAL_LIBRARY), [])
        self._weights: list[Memory] = []  # of all programs: they must outlive the executor

    def table(self) -> dict[str, str]:
        """Names of the kernels in csrc/params/metal_kernels.h -> their ops."""
        return _core.metal_kernels()

    def run(
        self,
        kernel: str,
        operands: Sequence[Memory | list[Memory | None] | None],
        params: bytes,
        rows: int,
        sequences: int,
    ) -> None:
        """Runs a kernel of the table on its signature's operands; lists are tables of matrices.

        Raises DeviceError, AssertionError.
        """
        present = [operand for operand in operands if isinstance(operand, np.ndarray)]
        places: dict[int, int] = {}  # by address
        end = GUARD
        for operand in present:
            if operand.ctypes.data not in places:
                places[operand.ctypes.data] = end
                end += -(-operand.nbytes // ALIGNMENT) * ALIGNMENT + GUARD
        memory = _core.Cache(end)
        memory.array[:] = POISON
        spans = [slice(begin, begin + o.nbytes) for o in present for begin in [places[o.ctypes.data]]]
        for operand, span in zip(present, spans, strict=True):
            memory.array[span] = operand
        weights: list[Memory] = []
        tables: list[list[int]] = []

        def bind(operand: Memory | list[Memory | None] | None) -> tuple[str, int, int, int]:
            if operand is None:
                return "none", 0, 0, 0
            if isinstance(operand, list):
                tables.append(list(range(len(weights), len(weights) + len(operand))))
                weights.extend(_ABSENT if matrix is None else matrix for matrix in operand)
                return "table", len(tables) - 1, 0, 0
            return "cache", 0, places[operand.ctypes.data], operand.nbytes

        launch = (kernel, [bind(operand) for operand in operands], params, "tokens", False)
        self._weights += weights
        dims = (rows, rows, sequences)
        program = _core.Program(self._executor, [launch], weights, memory, 0, dims, 0, 0, tables)
        program.run(rows, rows, sequences, [], [])
        for operand, span in zip(present, spans, strict=True):
            operand[:] = memory.array[span]
        for span in spans:
            memory.array[span] = POISON
        assert (memory.array == POISON).all(), f"{kernel} wrote outside its operands"
