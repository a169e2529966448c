"""The executors of a target's device: threads of the CPU, or the GPU through Metal."""

from __future__ import annotations

import mmap
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .. import _core
from ..errors import DeviceError
from ..graph import Graph
from ..lowering import Target, cpu_target, metal_target

Executor = _core.Executor | _core.MetalExecutor

METAL_LIBRARY = Path(_core.__file__).parent / "ferrule.metallib"


def executor(target: Target, graph: Graph, threads: int) -> Executor:
    """Runs programs of `graph` on the target. Raises DeviceError where this machine has no such device."""
    if target.backend == "cpu":
        return _core.Executor(target.name, threads)
    return _core.MetalExecutor(str(METAL_LIBRARY), mapped_files(weight.data for weight in graph.weights))


def cpu(name: str | None = None, *, activation_bits: int = 16) -> Target:
    """The CPU target of that name, or the best one. Raises DeviceError where this processor cannot run it."""
    if name is not None and name not in _core.targets():
        reason = "this processor cannot run" if name in _core.all_targets() else "there is no"
        raise DeviceError(f"{reason} target {name!r}", expected=" or ".join(_core.targets()))
    return cpu_target(name, activation_bits=activation_bits)


def gpu() -> Target:
    """The machine's GPU. Raises DeviceError where there is none that can be used."""
    return metal_target(_core.MetalExecutor(str(METAL_LIBRARY), []).family)


def mapped_files(arrays: Iterable[NDArray[np.uint8]]) -> list[NDArray[np.uint8]]:
    """The whole of every mapped file that some of the arrays are views of."""
    files: dict[int, NDArray[np.uint8]] = {}
    for array in arrays:
        base: object = array
        while isinstance(base, np.ndarray | memoryview):
            base = base.base if isinstance(base, np.ndarray) else base.obj
        if isinstance(base, mmap.mmap):
            files.setdefault(id(base), np.frombuffer(base, np.uint8))
    return list(files.values())
