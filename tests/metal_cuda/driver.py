"""The little of CUDA's driver API that runs and times kernels, through ctypes."""

from __future__ import annotations

import ctypes
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metal_cuda.compiler import ENTRY

_MAX_REGISTERS = 0  # of CUjit_option
_RELAXED = 2  # of CUstreamCaptureMode


class CudaError(Exception):
    """What the driver reports."""


class Arguments(ctypes.Structure):
    """A kernel's only argument, as in include/metal_cuda/memory.h."""

    _fields_ = [
        ("buffers", ctypes.c_uint64 * 30),  # the last one pads
        ("params", ctypes.c_char * 256),
        ("sizes", ctypes.c_uint32 * 4),  # two of them pad
    ]


class Driver:
    """The first GPU, and one stream on it."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")
        self._call("cuInit", 0)
        self._device = ctypes.c_int()
        self._call("cuDeviceGet", ctypes.byref(self._device), 0)
        context = self._handle("cuDevicePrimaryCtxRetain", self._device)
        self._call("cuCtxSetCurrent", context)
        self._stream = self._handle("cuStreamCreate", 0)  # waits for uploads, which go through the default stream
        self._events = [self._handle("cuEventCreate", 0) for _ in range(2)]

    def name(self) -> str:
        text = ctypes.create_string_buffer(256)
        self._call("cuDeviceGetName", text, len(text), self._device)
        return text.value.decode()

    def load(self, ptx: bytes, max_registers: int = 0) -> ctypes.c_void_p:
        """The kernel of a module, compiled for this GPU; 0 leaves the number of registers to the driver."""
        options, values = (ctypes.c_int * 1)(_MAX_REGISTERS), (ctypes.c_void_p * 1)(max_registers)
        module = self._handle("cuModuleLoadDataEx", ptx, int(max_registers > 0), options, values)
        return self._handle("cuModuleGetFunction", module, ENTRY.encode())

    def allocate(self, size: int) -> int:
        address = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address.value

    def free(self, address: int) -> None:
        self._call("cuMemFree_v2", ctypes.c_uint64(address))

    def upload(self, address: int, array: NDArray[Any]) -> None:
        self._call("cuMemcpyHtoD_v2", ctypes.c_uint64(address), ctypes.c_void_p(array.ctypes.data), _size(array))

    def download(self, array: NDArray[Any], address: int) -> None:
        self._call("cuMemcpyDtoH_v2", ctypes.c_void_p(array.ctypes.data), ctypes.c_uint64(address), _size(array))

    def launch(self, function: ctypes.c_void_p, geometry: tuple[int, int, int, int, int], arguments: Arguments) -> None:
        """`geometry`: threadgroups in x, y and z, threads in each, bytes of threadgroup memory. Does not wait."""
        x, y, z, threads, shared_bytes = geometry
        pointers = (ctypes.c_void_p * 1)(ctypes.addressof(arguments))
        self._call("cuLaunchKernel", function, x, y, z, threads, 1, 1, shared_bytes, self._stream, pointers, None)

    def wait(self) -> None:
        """Raises CudaError where a kernel failed; the context is of no use then."""
        self._call("cuStreamSynchronize", self._stream)

    def seconds(self, enqueue: Callable[[], None], repetitions: int = 7) -> float:
        """Median time of what `enqueue` launches, replayed as a graph after a first time that does not count."""
        self._call("cuStreamBeginCapture_v2", self._stream, _RELAXED)
        enqueue()
        graph = self._handle("cuStreamEndCapture", self._stream, handle_last=True)
        executable = self._handle("cuGraphInstantiateWithFlags", graph, ctypes.c_uint64(0))
        times = []
        for _ in range(repetitions + 1):
            self._call("cuEventRecord", self._events[0], self._stream)
            self._call("cuGraphLaunch", executable, self._stream)
            self._call("cuEventRecord", self._events[1], self._stream)
            self.wait()
            milliseconds = ctypes.c_float()
            self._call("cuEventElapsedTime", ctypes.byref(milliseconds), *self._events)
            times.append(milliseconds.value / 1000)
        self._call("cuGraphExecDestroy", executable)
        self._call("cuGraphDestroy", graph)
        return statistics.median(times[1:])

    def _handle(self, function: str, *arguments: Any, handle_last: bool = False) -> ctypes.c_void_p:
        handle = ctypes.c_void_p()
        place = ctypes.byref(handle)
        self._call(function, *((*arguments, place) if handle_last else (place, *arguments)))
        return handle

    def _call(self, function: str, *arguments: Any) -> None:
        code = getattr(self._library, function)(*arguments)
        if code:
            text = ctypes.c_char_p()
            self._library.cuGetErrorString(code, ctypes.byref(text))
            raise CudaError(f"{function}: {(text.value or b'').decode()} ({code})")


def _size(array: NDArray[Any]) -> ctypes.c_size_t:
    return ctypes.c_size_t(array.nbytes)


assert ctypes.sizeof(Arguments) == 512
assert np.dtype(np.uintp).itemsize == 8
