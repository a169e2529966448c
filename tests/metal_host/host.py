"""Builds the executor and the translated kernels, and runs kernels through ctypes."""

from __future__ import annotations

import ctypes
import fcntl
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

SOURCE = Path(__file__).resolve().parent
CLANG = "clang++-19"
_ERROR_BYTES = 4096
_NAMES_BYTES = 1 << 16

Memory = NDArray[np.uint8]


class MetalFaultError(Exception):
    """What the executor found wrong with a dispatch."""


class _Buffer(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("bytes", ctypes.c_uint64)]


class MetalHost:
    """The build in `directory`.

    Dispatches take a `seed` for the order of threadgroups, simdgroups and lanes (0 ascending, 1 descending, else
    shuffled), and `checked` for the kernels that are watched for races, bounds and uninitialised memory.
    """

    # Three orders of threads, and one time checked.
    VARIANTS: ClassVar[tuple[dict[str, Any], ...]] = ({"seed": 0}, {"seed": 1}, {"seed": 2}, {"checked": True})

    def __init__(self, directory: Path, checked_kernels: Path | None = None) -> None:
        """`checked_kernels` replaces the build's library of them."""
        self.directory = directory
        self._checked_kernels = checked_kernels or directory / "kernels_checked.so"
        self._library = ctypes.CDLL(str(directory / "libmetal_host.so"))

    def kernels(self) -> set[str]:
        """Names of the translated kernels of metal/."""
        return {name for (name,) in self._lines(self._library.metal_host_kernels, _path(self.directory / "kernels.so"))}

    def table(self) -> dict[str, str]:
        """Names of the kernels in csrc/params/metal_kernels.h -> their ops."""
        return dict(self._lines(self._library.metal_host_table))

    def run(
        self,
        kernel: str,
        operands: Sequence[Memory | list[Memory | None] | None],
        params: bytes,
        rows: int,
        sequences: int,
        *,
        seed: int = 0,
        checked: bool = False,
    ) -> None:
        """Runs a kernel of the table on its signature's operands; lists are tables of addresses.

        Raises MetalFaultError.
        """
        bound = [addresses(operand) if isinstance(operand, list) else operand for operand in operands]
        tables = (operand for operand in operands if isinstance(operand, list))
        self._call(
            self._library.metal_host_run,
            _path(self._checked_kernels if checked else self.directory / "kernels.so"),
            kernel.encode(),
            *_buffers(bound),
            *_buffers([array for table in tables for array in table if array is not None]),
            params,
            rows,
            sequences,
            seed,
            checked,
        )

    def dispatch_faulty(
        self,
        kernel: str,
        buffers: Sequence[Memory],
        threadgroups: int,
        threads: int,
        *,
        shared_bytes: int = 0,
        seed: int = 0,
        checked: bool = False,
    ) -> None:
        """Runs a kernel of bad/. Raises MetalFaultError."""
        self._call(
            self._library.metal_host_dispatch,
            _path(self.directory / f"bad_kernels{'_checked' if checked else ''}.so"),
            kernel.encode(),
            *_buffers(buffers),
            (ctypes.c_uint32 * 3)(threadgroups, 1, 1),
            (ctypes.c_uint32 * 3)(threads, 1, 1),
            ctypes.c_uint64(shared_bytes),
            seed,
            checked,
        )

    def _lines(self, function: Callable[..., int], *arguments: Any) -> list[list[str]]:
        names = ctypes.create_string_buffer(_NAMES_BYTES)
        self._call(function, *arguments, names, ctypes.c_size_t(_NAMES_BYTES))
        return [line.split() for line in names.value.decode().splitlines()]

    @staticmethod
    def _call(function: Callable[..., int], *arguments: Any) -> None:
        error = ctypes.create_string_buffer(_ERROR_BYTES)
        if function(*arguments, error, ctypes.c_size_t(_ERROR_BYTES)):
            raise MetalFaultError(error.value.decode())


def addresses(table: Sequence[Memory | None]) -> Memory:
    """Addresses as a kernel gets them, 0 for None."""
    return np.array([0 if array is None else array.ctypes.data for array in table], np.uint64).view(np.uint8)


def _path(library: Path) -> bytes:
    return str(library).encode()


def _buffers(arrays: Sequence[Memory | None]) -> tuple[ctypes.Array[_Buffer], ctypes.c_size_t]:
    entries = [_Buffer(None, 0) if array is None else _Buffer(array.ctypes.data, array.nbytes) for array in arrays]
    return (_Buffer * len(entries))(*entries), ctypes.c_size_t(len(entries))


@pytest.fixture(scope="session")
def metal_host(pytestconfig: pytest.Config) -> MetalHost:
    """The build, brought up to date in pytest's cache directory."""
    if shutil.which(CLANG) is None:
        pytest.skip(f"Metal kernels on the host need {CLANG}")
    directory = pytestconfig.cache.mkdir("metal_host")
    with (directory / "lock").open("w") as lock:  # test processes may run side by side
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (directory / "build.ninja").exists():
            options = [f"-DCMAKE_CXX_COMPILER={CLANG}", f"-DPython_EXECUTABLE={sys.executable}"]
            run_command("cmake", "-S", str(SOURCE), "-B", str(directory), "-G", "Ninja", *options)
        run_command("cmake", "--build", str(directory))
    return MetalHost(directory)


def run_command(*command: str) -> None:
    """Runs a command of the build; the test fails with what it printed where it fails."""
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        pytest.fail(f"{' '.join(command)}\n{result.stdout}\n{result.stderr}", pytrace=False)
