"""Weight matrices in stored formats, with numbers that a kernel can be judged by."""

from __future__ import annotations

from dataclasses import dataclass

import gguf
import numpy as np
from gguf.constants import GGMLQuantizationType
from numpy.typing import NDArray

from ferrule.formats import FORMATS

FLOATS = ("F32", "F16", "BF16")
QUANTIZED = tuple(name for name in FORMATS if name not in FLOATS)
QUANTIZABLE = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "TQ1_0", "TQ2_0", "MXFP4")  # by the gguf package


@dataclass(frozen=True, eq=False)
class Matrix:
    """`data`: uint8 [n, bytes of a row]; `values`: float64 [n, k]; `magnitudes` >= |scale * code| + |minimum|."""

    data: NDArray[np.uint8]
    values: NDArray[np.float64]
    magnitudes: NDArray[np.float64]


def make_matrix(name: str, n: int, k: int, rng: np.random.Generator, *, quantized: bool = False) -> Matrix:
    """Blocks of random bytes, or (`quantized`) of quantised normal values."""
    fmt = FORMATS[name]
    if name == "F32":
        data = rng.standard_normal((n, k), np.float32).view(np.uint8)
    elif name in FLOATS or quantized:
        data = gguf.quantize(rng.standard_normal((n, k), np.float32), GGMLQuantizationType[name]).view(np.uint8)
    else:
        data = random_blocks(name, n * k // fmt.block, rng).reshape(n, fmt.row_bytes(k))
    values = fmt.decode(data, (n, k)).astype(np.float64)
    return Matrix(data, values, _magnitudes(name, data, values))


def random_blocks(name: str, count: int, rng: np.random.Generator) -> NDArray[np.uint8]:
    """uint8 [count, block bytes] of random bytes whose values are finite and at most 1000."""
    fmt = FORMATS[name]
    blocks = np.empty((count, fmt.block_bytes), np.uint8)
    todo = np.arange(count)
    while len(todo):
        blocks[todo] = rng.integers(0, 256, (len(todo), fmt.block_bytes), np.uint8)
        values = fmt.decode(blocks[todo], (len(todo), fmt.block))
        todo = todo[~(np.abs(values).max(axis=1) <= 1000)]
    return blocks


def _magnitudes(name: str, data: NDArray[np.uint8], values: NDArray[np.float64]) -> NDArray[np.float64]:
    fmt = FORMATS[name]
    if "minimum" not in (fmt.fields.names or ()):
        return np.abs(values)
    # |scale * code| <= |largest code's value| + |minimum|, and the minimum is code 0's value.
    ends = []
    for byte in (0x00, 0xFF):
        blocks = data.copy().reshape(-1).view(fmt.fields)
        for field in {"codes", "low", "high"} & set(fmt.fields.names or ()):
            blocks[field] = byte
        ends.append(np.abs(fmt.decode(blocks.view(np.uint8), values.shape).astype(np.float64)))
    return ends[1] + 2 * ends[0]
