"""Runs kernels of metal/ on an NVIDIA GPU, as `metal_host.host.MetalHost` runs them on the CPU."""

from __future__ import annotations

import ctypes
import functools
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from kernel_testing import ALIGNMENT, GUARD, POISON, SIGNATURES
from numpy.typing import NDArray

from metal_cuda.compiler import HERE, Compiler
from metal_cuda.driver import Arguments, Driver

Memory = NDArray[np.uint8]
Geometry = tuple[int, int, int, int, int]


class CudaDevice:
    """The first GPU; what is compiled stays in `directory`.

    Operands have `guard` poisoned bytes before and after them. None are needed where compute-sanitizer watches, which
    sees more when an operand fills its allocation.
    """

    VARIANTS: ClassVar[tuple[dict[str, Any], ...]] = ({}, {})  # twice the same: races may show

    def __init__(self, directory: Path, guard: int = GUARD) -> None:
        self.driver = Driver()
        self._compiler = Compiler(directory)
        self._guard = guard
        with tempfile.TemporaryDirectory() as build:
            library = Path(build) / "geometry.so"
            options = ["-std=c++20", "-O1", "-shared", "-fPIC", "-o", library]
            subprocess.run(["c++", *options, HERE / "geometry.cpp"], check=True)
            self._geometry = ctypes.CDLL(str(library))
        self._geometry.kernel_table.restype = ctypes.c_char_p
        self._ops = dict(line.split() for line in self._geometry.kernel_table().decode().splitlines())

    def table(self) -> dict[str, str]:
        """Names of the kernels in csrc/params/metal_kernels.h -> their ops."""
        return self._ops

    def run(
        self,
        kernel: str,
        operands: Sequence[Memory | list[Memory | None] | None],
        params: bytes,
        rows: int,
        sequences: int,
    ) -> None:
        """Runs a kernel of the table on its signature's operands; lists are tables of addresses.

        Raises CudaError, AssertionError.
        """
        function = self.function(kernel, [operand is not None for operand in operands], params)
        placed: dict[int, tuple[int, Memory, Memory]] = {}  # by address: on the GPU, what surrounds it, the operand

        def place(operand: Memory | None) -> int:
            if operand is None:
                return 0
            if operand.ctypes.data not in placed:
                placed[operand.ctypes.data] = self._place(operand)
            return placed[operand.ctypes.data][0]

        def table(arrays: list[Memory | None]) -> Memory:
            return np.array([place(array) for array in arrays], np.uint64).view(np.uint8)

        bound = [table(operand) if isinstance(operand, list) else operand for operand in operands]
        addresses = [place(operand) for operand in bound]
        geometry = self.geometry(kernel, params, rows, sequences)
        self.driver.launch(function, geometry, self.arguments(addresses, params, rows, sequences))
        self.driver.wait()
        for address, surroundings, operand in placed.values():
            before = self._before(operand)
            self.driver.download(surroundings, address - before)
            operand[:] = surroundings[before : before + operand.nbytes]
            surroundings[before : before + operand.nbytes] = POISON
            assert (surroundings == POISON).all(), f"{kernel} wrote outside its operands"
            self.driver.free(address - before)

    @functools.cache  # noqa: B019  of a session's only device
    def _load(self, kernel: str, constants: tuple[tuple[str, float], ...], max_registers: int) -> ctypes.c_void_p:
        return self.driver.load(self._compiler.ptx(kernel, dict(constants)), max_registers)

    def function(self, kernel: str, bound: Sequence[bool], params: bytes, max_registers: int = 0) -> ctypes.c_void_p:
        """The kernel, specialised for its function constants, whose names csrc/params/metal_dispatch.h explains."""
        _, fields, signature = SIGNATURES[self._ops[kernel]]
        constants: dict[str, float] = {
            f"has_{name}": int(is_bound) for (name, _, _), is_bound in zip(signature, bound, strict=True)
        }
        for name, kind, offset in fields:
            (constants[f"fc_{name}"],) = struct.unpack_from("<I" if kind == "u32" else "<f", params, offset)
        declared = self._compiler.constants(kernel)
        return self._load(kernel, tuple(item for item in constants.items() if item[0] in declared), max_registers)

    def geometry(self, kernel: str, params: bytes, rows: int, sequences: int) -> Geometry:
        """What `Driver.launch` wants."""
        values = (ctypes.c_uint32 * 5)()
        self._geometry.kernel_geometry(kernel.encode(), params, rows, sequences, values)
        x, y, z, threads, shared_bytes = values
        return x, y, z, threads, shared_bytes

    @staticmethod
    def arguments(addresses: Sequence[int], params: bytes, rows: int, sequences: int) -> Arguments:
        arguments = Arguments()
        arguments.buffers[: len(addresses)] = addresses
        ctypes.memmove(ctypes.addressof(arguments) + Arguments.params.offset, params, len(params))
        arguments.sizes[:2] = [rows, sequences]
        return arguments

    def _before(self, operand: Memory) -> int:
        """Bytes before an operand: as far past a multiple of 64 as it is on the CPU."""
        return self._guard + operand.ctypes.data % ALIGNMENT

    def _place(self, operand: Memory) -> tuple[int, Memory, Memory]:
        before = self._before(operand)
        surroundings = np.full(before + operand.nbytes + self._guard, POISON, np.uint8)
        surroundings[before : before + operand.nbytes] = operand
        address = self.driver.allocate(max(1, surroundings.nbytes))
        self.driver.upload(address, surroundings)
        return address + before, surroundings, operand


@pytest.fixture(scope="session")
def cuda_device(pytestconfig: pytest.Config) -> CudaDevice:
    """Without guards for `--metal-runner cuda-sanitized`."""
    guard = 0 if pytestconfig.getoption("--metal-runner") == "cuda-sanitized" else GUARD
    return CudaDevice(pytestconfig.cache.mkdir("metal_cuda"), guard)
