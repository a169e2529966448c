"""Runs single Metal kernels on guarded, poisoned buffers, as `kernel_testing.Runner` runs those of the CPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from kernel_testing import GUARD, SIGNATURES, Buffer, Operand, Shape, as_bytes, pack_params
from numpy.typing import DTypeLike, NDArray

from metal.gpu import Gpu
from metal_cuda.device import CudaDevice
from metal_host.host import MetalHost


class MetalRunner:
    """Runs every kernel in all variants that the host or the GPU has; all results must be the same to the bit.

    Bytes around operands, and operands that are only read, must not change.
    """

    LEAST_ALIGNMENT: ClassVar[int] = 4  # of operands, in bytes

    def __init__(self, host: MetalHost | CudaDevice | Gpu) -> None:
        self._host = host
        self._ops = host.table()

    def run(
        self,
        kernel: str,
        operands: Mapping[str, Operand],
        params: Mapping[str, float],
        rows: int,
        out: Shape | Mapping[str, tuple[Shape, DTypeLike]],
        *,
        dims: tuple[int, int, int] | None = None,
        alias: Mapping[str, str] | None = None,
        misalign: Mapping[str, int] | None = None,
    ) -> Any:
        """As `kernel_testing.Runner.run`. Of `dims`, only the number of sequences matters."""
        written = dict(out) if isinstance(out, Mapping) else {"out": (out, np.float32)}
        sequences = dims[2] if dims else 1
        arguments = (kernel, operands, params, rows, sequences, written, alias or {}, misalign or {})
        first = self._run_once(*arguments, self._host.VARIANTS[0])
        for variant in self._host.VARIANTS[1:]:
            other = self._run_once(*arguments, variant)
            for name, array in first.items():
                np.testing.assert_array_equal(
                    array.view(np.uint8), other[name].view(np.uint8), f"{name} with {variant}"
                )
        return next(iter(first.values())) if len(first) == 1 else first

    def _run_once(
        self,
        kernel: str,
        operands: Mapping[str, Operand],
        params: Mapping[str, float],
        rows: int,
        sequences: int,
        written: Mapping[str, tuple[Shape, DTypeLike]],
        alias: Mapping[str, str],
        misalign: Mapping[str, int],
        variant: Mapping[str, Any],
    ) -> dict[str, NDArray[Any]]:
        _, _, signature = SIGNATURES[self._ops[kernel]]
        unknown = {*operands, *written, *alias, *misalign} - {name for name, _, _ in signature}
        assert not unknown, f"{kernel} has no operands {unknown}"

        buffers: dict[str, list[Buffer | None]] = {}
        contents: dict[str, list[NDArray[np.uint8]]] = {}
        for name, operand in operands.items():
            if operand is None or name in alias:
                continue
            arrays = [None if a is None else as_bytes(a) for a in (operand if isinstance(operand, list) else [operand])]
            contents[name] = [array for array in arrays if array is not None]
            buffers[name] = [None if array is None else _buffer(array, misalign.get(name, 0)) for array in arrays]
        for name, (shape, dtype) in written.items():
            if name not in alias and name not in buffers:
                size = int(np.prod(shape)) * np.dtype(dtype).itemsize
                buffers[name] = [Buffer.make(size, GUARD, misalign.get(name, 0))]
        buffers |= {name: buffers[other] for name, other in alias.items()}

        memory: list[Any] = []
        for name, _, _ in signature:
            arrays = [None if buffer is None else buffer.operand for buffer in buffers.get(name, [None])]
            memory.append(arrays if isinstance(operands.get(name), list) else arrays[0])
        packed = pack_params(self._ops[kernel], params)
        self._host.run(kernel, memory, packed, rows, sequences, **variant)

        results = {}
        for name, access, _ in signature:
            present = [buffer for buffer in buffers.get(name, []) if buffer is not None]
            assert all(buffer.guards_intact() for buffer in present), f"{kernel} wrote outside {name}"
            if present and access != "read":
                operand = operands.get(name)
                shape, dtype = (operand.shape, operand.dtype) if isinstance(operand, np.ndarray) else written[name]
                results[name] = np.frombuffer(present[0].operand.tobytes(), dtype).reshape(shape)
            elif name not in alias.values():
                for buffer, content in zip(present, contents.get(name, []), strict=True):
                    assert (buffer.operand == content).all(), f"{kernel} wrote to {name}"
        return results


def _buffer(content: NDArray[np.uint8], misalignment: int) -> Buffer:
    buffer = Buffer.make(content.nbytes, GUARD, misalignment)
    buffer.operand[:] = content
    return buffer
