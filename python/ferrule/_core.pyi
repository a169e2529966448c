"""Weight formats, kernels and the executors that run plans of them."""

from collections.abc import Sequence
from typing import Annotated, Any, overload

import numpy
import numpy.typing
from numpy.typing import NDArray


def format_sizes() -> dict[str, tuple[int, int, int]]:
    """
    Name of each weight format -> its GGML type, values per block, bytes per block.
    """

def codebooks() -> dict[str, bytes]:
    """
    Format -> its codebook: a byte per value, 8 values an entry (IQ3: 4). IQ1_S holds values + 1.
    """

def length_prefixed(buffer: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', writable=False)], position: int, count: int) -> tuple[list[bytes], int]:
    """
    `count` byte strings, each behind its length (u64, little-endian), and where they end: those before the first that runs past the end of the buffer.
    """

CACHE_BLOCK: int = 64

def quantized_row_bytes(k: int, planes: int) -> int:
    """
    Bytes of a row of k quantised activations, their codes in so many planes.
    """

def quantized_vector_bytes(width: int) -> int:
    """Bytes of a key or value vector of so many values in a cache in q8_0."""

def rounded_vector_bytes(width: int) -> int:
    """The same in bf16."""

def targets() -> list[str]:
    """Names of the CPU targets that this processor can run, best first."""

def all_targets() -> list[str]:
    """Names of every CPU target of this build, best first."""

def signatures() -> dict[str, tuple[int, list[tuple[str, str, int]], list[tuple[str, str, bool]]]]:
    """
    Per op: bytes of its parameters, its fields (name, "u32" or "f32", byte offset), and its operands (name, "read", "write" or "read_write", optional), in the order of kernels' arguments.
    """

def parameter_values() -> dict[str, dict[str, int]]:
    """
    Kernel parameter that chooses among several -> name of each choice -> its number.
    """

def kernels(target: str) -> dict[str, str]:
    """Name of every kernel of a target -> its op."""

def linears_partials(k: int, n: int, n_b: int, n_c: int, gated: int) -> int:
    """
    Floats of partial sums that a Metal product of many rows may need (csrc/params/linears.h); 0: it is never split.
    """

def expert_order_words(experts: int, slots: int, rows: int) -> int:
    """
    Words of the order of so many rows' slots by expert (csrc/params/expert_order.h).
    """

def metal_kernels() -> dict[str, str]:
    """Name of every Metal kernel -> its op."""

def metal_limits() -> dict[str, dict[str, int]]:
    """
    Name of a Metal kernel, without formats -> parameters that it limits -> the most that it takes.
    """

def run_kernel(target: str, kernel: str, operands: list[numpy.typing.NDArray[Any] | list[numpy.typing.NDArray[Any] | None] | None], params: bytes, rows: int, dims: tuple[int, int, int], split: list[tuple[int, int]] | None = None) -> int:
    """
    Runs one kernel in this thread and returns its number of work items.

    An operand that is a list of arrays is the table of their addresses. `dims` are (tokens, rows, sequences); `split` lists ranges of work items in the order to run them. Raises ValueError when the operands do not fit the kernel's signature.
    """

class Executor:
    """A CPU target's kernels and the threads that run them."""

    def __init__(self, target: str, threads: int) -> None: ...

    @property
    def target(self) -> str: ...

    @property
    def threads(self) -> int: ...

class HugePages:
    """
    Moves mapped files into huge pages of memory, in the background, while this lives.

    Their addresses stay. Does nothing where the system has no huge pages.
    """

    def __init__(self, files: Sequence[Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)]]) -> None: ...

    @property
    def moved(self) -> int:
        """Bytes so far."""

    def wait(self) -> None:
        """Returns when everything is moved."""

class MetalExecutor:
    """
    The GPU, its kernels, and the mapped files whose weights it reads in place.

    Raises DeviceError where there is no GPU that can be used.
    """

    def __init__(self, library: str, files: Sequence[Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)]]) -> None: ...

    @property
    def family(self) -> str: ...

def metal_backend() -> str:
    """What Metal is in this build: "none", "gpu" or "stand-in"."""

class Cache:
    """
    Zeroed memory for keys and values, taken from the system when it is first touched.

    The first `dense` bytes are filled from their begin on.
    """

    def __init__(self, bytes: int, dense: int = 0) -> None: ...

    @property
    def bytes(self) -> int: ...

    @property
    def array(self) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,))]:
        """The memory as bytes."""

class Step:
    """
    A step that was started; its program lives as long. Its end is waited for.
    """

    def finish(self, outputs: Sequence[numpy.typing.NDArray[Any]]) -> None:
        """
        Waits for the step, without the GIL, and fills the arrays with its results. Raises DeviceError.
        """

class Program:
    """
    A plan bound to an executor, weights and a cache, with an arena of its own.

    A launch is (kernel, operands, params, row dimension, barrier); an operand (kind, index, offset, bytes), see
    `csrc/plan/plan.h`; a table lists weights by index. Raises ValueError that names the launch and what is wrong with it.
    """

    @overload
    def __init__(self, executor: Executor, launches: Sequence[tuple[str, Sequence[tuple[str, int, int, int]], bytes, str, bool]], weights: Sequence[Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)]], cache: Cache, arena_bytes: int, max_dims: tuple[int, int, int], n_inputs: int, n_outputs: int, tables: Sequence[Sequence[int]] = []) -> None: ...

    @overload
    def __init__(self, executor: MetalExecutor, launches: Sequence[tuple[str, Sequence[tuple[str, int, int, int]], bytes, str, bool]], weights: Sequence[Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)]], cache: Cache, arena_bytes: int, max_dims: tuple[int, int, int], n_inputs: int, n_outputs: int, tables: Sequence[Sequence[int]] = []) -> None: ...

    def run(self, tokens: int, rows: int, sequences: int, inputs: Sequence[numpy.typing.NDArray[Any]], outputs: Sequence[numpy.typing.NDArray[Any]]) -> None:
        """
        Runs one step, without the GIL. Raises ValueError when it is larger than the plan allows.
        """

    def start(self, tokens: int, rows: int, sequences: int, inputs: Sequence[numpy.typing.NDArray[Any]], output_bytes: Sequence[int], previous: Step | None) -> Step:
        """
        Starts a step on a GPU; steps run in the order of their starts. An empty input is what `previous` puts
        out first. Raises ValueError as `run`, and for programs of the CPU.
        """

    def profile(self, tokens: int, rows: int, sequences: int, inputs: Sequence[numpy.typing.NDArray[Any]], outputs: Sequence[numpy.typing.NDArray[Any]]) -> list[int]:
        """
        Like `run`, one launch after another; returns each launch's nanoseconds.
        """
