"""Which device a model runs on, and its executor: threads of the CPU, or the GPU through Metal."""

from __future__ import annotations

import mmap
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .. import _core
from ..errors import DeviceError, OptionError, UnsupportedOp
from ..graph import Graph
from ..lowering import RowClass, Target, cpu_target, lower, metal_target
from .kv_cache import cache_dtype

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


def choose(graph: Graph, device: str, *, target: str | None, activation_bits: int, kv_dtype: str) -> tuple[Target, str]:
    """What `graph` runs on, and why. `device` is "cpu", "metal" or "auto"; the others are as in `ferrule.load`.

    Raises DeviceError or UnsupportedOp where that was asked for and cannot be, OptionError for options of the CPU with
    another device.
    """
    if device == "metal":
        for option, is_set in (("target", target is not None), ("activation_bits", activation_bits != 16)):
            if is_set:
                raise OptionError(f"{option} is for the CPU", expected='device="cpu"', found='device="metal"')
        return _gpu_for(graph, kv_dtype), "asked for"
    if device == "cpu" or target is not None:
        return cpu(target, activation_bits=activation_bits), "asked for"
    if _core.metal_backend() != "gpu":
        return cpu(activation_bits=activation_bits), "this build of ferrule has no Metal backend"
    try:
        return _gpu_for(graph, kv_dtype), "the GPU can run the model"
    except (DeviceError, UnsupportedOp) as error:
        return cpu(activation_bits=activation_bits), str(error)


def _gpu_for(graph: Graph, kv_dtype: str) -> Target:
    """The machine's GPU, if it can run the graph, for few tokens and for many."""
    found = gpu()
    dtype = cache_dtype(graph, found, kv_dtype)
    row_classes: tuple[RowClass, ...] = ("one_row", "many_rows")
    for row_class in row_classes:
        lower(graph, found, row_class, kv_dtype=dtype)
    return found


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
