"""Runs single kernels on guarded, poisoned buffers, in this process or in a `kernel_runner` of another build."""

from __future__ import annotations

import ctypes
import mmap
import os
import shlex
import struct
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ferrule import _core

EPSILON = 2.0**-24  # half a unit in the last place of 1.0 in float32: the relative error of one rounding

ALIGNMENT = 64
GUARD = 128  # bytes before and after each operand
POISON = 0xFF  # NaN as float16 and float32, -1 as an integer

SIGNATURES = _core.signatures()
OPS = {kernel: op for target in _core.all_targets() for kernel, op in _core.kernels(target).items()}

Shape = tuple[int, ...]
Table = list[NDArray[Any] | None]  # a kernel gets the addresses of arrays, 0 for None
Operand = NDArray[Any] | Table | None


def dot_bound(k: int, magnitudes: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
    """Largest error of a float32 sum of k products, in any order, where `magnitudes` are the sums of their absolutes.

    Higham, Accuracy and Stability of Numerical Algorithms, 3.1.
    """
    return 1.01 * k * EPSILON * magnitudes


@dataclass
class Buffer:
    """Memory of one operand: [alignment and guard][operand][guard], or [operand] before a fence."""

    memory: NDArray[np.uint8]
    begin: int
    size: int

    @classmethod
    def make(cls, size: int, guard: int, misalignment: int) -> Buffer:
        """All poison; `begin` is `misalignment` bytes past a multiple of 64, which the length with guards is, too."""
        length = guard + misalignment + size + guard
        length += -length % ALIGNMENT if guard > 0 else 0
        spare = np.empty(length + ALIGNMENT, np.uint8)
        first = -spare.ctypes.data % ALIGNMENT
        memory = spare[first : first + length]
        memory[:] = POISON
        return cls(memory, guard + misalignment, size)

    @property
    def operand(self) -> NDArray[np.uint8]:
        return self.memory[self.begin : self.begin + self.size]

    def guards_intact(self) -> bool:
        before, after = self.memory[: self.begin], self.memory[self.begin + self.size :]
        return bool((before == POISON).all() and (after == POISON).all())


def fenced(size: int) -> NDArray[np.uint8]:
    """Memory of `size` bytes before a page that nobody may touch: who reads or writes past its end is killed."""
    pages = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = np.frombuffer(mmap.mmap(-1, pages + mmap.PAGESIZE), np.uint8)
    memory[:pages] = POISON
    if _protect(memory.ctypes.data + pages, mmap.PAGESIZE, PROT_NONE) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return memory[pages - size : pages]


PROT_NONE = 0  # POSIX leaves the value open; it is this on Linux and macOS
_protect = ctypes.CDLL(None, use_errno=True).mprotect
_protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


@dataclass(frozen=True)
class Call:
    """One run of a kernel; `operands` are indices into `buffers`, lists of them for tables of addresses, or None."""

    target: str
    kernel: str
    buffers: Sequence[Buffer]
    operands: Sequence[int | list[int | None] | None]
    params: bytes
    rows: int
    dims: tuple[int, int, int]
    split: list[tuple[int, int]] | None


class InProcess:
    """Kernels of this process's module."""

    def guarded(self, size: int, misalignment: int) -> Buffer:
        return Buffer.make(size, GUARD, misalignment)

    def fenced(self, size: int) -> Buffer:
        return Buffer(fenced(size), 0, size)

    def targets(self) -> list[str]:
        return _core.targets()

    def execute(self, call: Call) -> int:
        def memory(i: int | None) -> NDArray[np.uint8] | None:
            return None if i is None else call.buffers[i].operand

        operands = [[memory(j) for j in i] if isinstance(i, list) else memory(i) for i in call.operands]
        return _core.run_kernel(call.target, call.kernel, operands, call.params, call.rows, call.dims, call.split)


class OtherProcess:
    """Kernels of a `kernel_runner` program, whose protocol is described in `csrc/tools/kernel_runner.cpp`."""

    def __init__(self, command: str) -> None:
        self.process = subprocess.Popen(shlex.split(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin: IO[bytes] = self.process.stdin
        self.stdout: IO[bytes] = self.process.stdout
        sanitized, n_targets = self._read("II")
        self._guard = 0 if sanitized else GUARD  # a sanitizer sees more when nothing of ours surrounds the operands
        self._targets = [self._read_bytes().decode() for _ in range(n_targets)]

    def guarded(self, size: int, misalignment: int) -> Buffer:
        return Buffer.make(size, self._guard, misalignment)

    def fenced(self, size: int) -> Buffer:
        return Buffer.make(size, 0, 0)  # in the other process, every buffer ends at a fence

    def targets(self) -> list[str]:
        return self._targets

    def execute(self, call: Call) -> int:
        message = b"".join(struct.pack("<Q", len(field)) + field for field in self._fields(call))
        self.stdin.write(message)
        self.stdin.flush()
        (failed,) = self._read("I")
        if failed:
            raise ValueError(self._read_bytes().decode())
        (items,) = self._read("I")
        for buffer in call.buffers:
            buffer.memory[:] = np.frombuffer(self._read_bytes(), np.uint8)
        return int(items)

    @staticmethod
    def _fields(call: Call) -> list[bytes]:
        operands = []
        for i in call.operands:
            entries = i if isinstance(i, list) else [i]
            operands += [(-2, len(entries))] if isinstance(i, list) else []
            operands += [(-1, 0) if j is None else (j, call.buffers[j].begin) for j in entries]
        split = [] if call.split is None else call.split
        return [
            call.target.encode(),
            call.kernel.encode(),
            call.params,
            struct.pack("<5I", call.rows, *call.dims, call.split is not None),
            np.array(split, np.uint32).tobytes(),
            np.array(operands, np.int64).tobytes(),
            *(buffer.memory.tobytes() for buffer in call.buffers),
            b"",  # buffers are never empty
        ]

    def _read_bytes(self) -> bytes:
        return self._read_exactly(self._read("Q")[0])

    def _read(self, format: str) -> tuple[Any, ...]:
        return struct.unpack("<" + format, self._read_exactly(struct.calcsize("<" + format)))

    def _read_exactly(self, size: int) -> bytes:
        data = self.stdout.read(size)
        if len(data) < size:
            raise RuntimeError(f"the kernel runner ended with status {self.process.wait()}; its report is above")
        return data


@dataclass(frozen=True)
class Runner:
    """Runs kernels of one target.

    Every kernel runs twice: once over all work items, once item by item from the last to the first; both results must
    be the same to the bit. In the first run, bytes around operands must not change; in the second, every operand ends
    where memory does. Operands that are only read must not change.
    """

    LEAST_ALIGNMENT: ClassVar[int] = 1  # of operands, in bytes

    process: InProcess | OtherProcess
    target: str

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
        """Result of `kernel`: the written array, or name -> array when several operands are written.

        `operands` holds what is read, or read and written, tables of arrays as lists; `out` the shape of the float32
        operand "out", or the shape and dtype of each written operand. `alias={"out": "x"}` gives "out" the memory of
        "x". `misalign` places operands that many bytes past a multiple of 64 in the first run. `dims` are (tokens,
        rows, sequences), by default (rows, rows, 1).
        """
        written = dict(out) if isinstance(out, Mapping) else {"out": (out, np.float32)}
        arguments = (kernel, operands, params, rows, written, dims or (rows, rows, 1), alias or {}, misalign or {})
        items, first = self._run_once(*arguments, None)
        assert items < 4096, f"{kernel}: {items} work items"
        _, second = self._run_once(*arguments, [(i, i + 1) for i in reversed(range(items))])
        for name, array in first.items():
            np.testing.assert_array_equal(
                array.view(np.uint8), second[name].view(np.uint8), f"{name} depends on how work is split"
            )
        return next(iter(first.values())) if len(first) == 1 else first

    def _run_once(
        self,
        kernel: str,
        operands: Mapping[str, Operand],
        params: Mapping[str, float],
        rows: int,
        written: Mapping[str, tuple[Shape, DTypeLike]],
        dims: tuple[int, int, int],
        alias: Mapping[str, str],
        misalign: Mapping[str, int],
        split: list[tuple[int, int]] | None,
    ) -> tuple[int, dict[str, NDArray[Any]]]:
        _, _, signature = SIGNATURES[OPS[kernel]]
        names = [name for name, _, _ in signature]
        unknown = {*operands, *written, *alias, *misalign} - set(names)
        assert not unknown, f"{kernel} has no operands {unknown}"

        buffers: list[Buffer] = []
        contents: list[NDArray[np.uint8] | None] = []  # of buffers that must not change

        def place(content: NDArray[np.uint8] | None, size: int, misalignment: int) -> int:
            buffer = self.process.guarded(size, misalignment) if split is None else self.process.fenced(size)
            if content is not None:
                buffer.operand[:] = content
            buffers.append(buffer)
            contents.append(content)
            return len(buffers) - 1

        index: dict[str, int | list[int | None]] = {}
        for name in names:
            operand = operands.get(name)
            if name in alias or (operand is None and name not in written):
                continue
            if isinstance(operand, list):
                index[name] = [
                    None if a is None else place(as_bytes(a), a.nbytes, misalign.get(name, 0)) for a in operand
                ]
            elif operand is not None:
                index[name] = place(as_bytes(operand), operand.nbytes, misalign.get(name, 0))
            else:
                index[name] = place(None, _nbytes(*written[name]), misalign.get(name, 0))
        index |= {name: index[other] for name, other in alias.items()}

        indices = [index.get(name) for name in names]
        items = self.process.execute(
            Call(self.target, kernel, buffers, indices, pack_params(OPS[kernel], params), rows, dims, split)
        )
        results = {}
        for name, access, _ in signature:
            i = index.get(name)
            if access == "read" or not isinstance(i, int):
                continue
            contents[i] = None
            operand = operands.get(name)
            shape, dtype = (operand.shape, operand.dtype) if isinstance(operand, np.ndarray) else written[name]
            results[name] = np.frombuffer(buffers[i].operand.tobytes(), dtype).reshape(shape)
        places = {j: name for name, i in index.items() for j in (i if isinstance(i, list) else [i]) if j is not None}
        for j, name in places.items():
            assert buffers[j].guards_intact(), f"{kernel} wrote outside {name}"
            assert contents[j] is None or (buffers[j].operand == contents[j]).all(), f"{kernel} wrote to {name}"
        return items, results


def pack_params(op: str, params: Mapping[str, float]) -> bytes:
    """The parameter struct of `op`."""
    size, fields, _ = SIGNATURES[op]
    assert set(params) == {name for name, _, _ in fields}, f"{op} takes {[name for name, _, _ in fields]}"
    packed = bytearray(size)
    for name, kind, offset in fields:
        struct.pack_into("<I" if kind == "u32" else "<f", packed, offset, params[name])
    return bytes(packed)


def as_bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    """The bytes of an array in the order of its elements."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _nbytes(shape: Shape, dtype: DTypeLike) -> int:
    return int(np.prod(shape)) * np.dtype(dtype).itemsize
