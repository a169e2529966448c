"""The paged key/value cache: blocks of positions handed out to sequences as they grow."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field

from .. import _core
from ..errors import MemoryBudgetError
from ..formats import FORMATS
from ..graph import CacheLayer, Graph, Weight

BLOCK = _core.CACHE_BLOCK  # positions in a block (csrc/params/kv_cache.h)
ELEMENT_BYTES = {"f32": 4, "f16": 2}


@dataclass(eq=False)
class Sequence:
    """One text in progress: the blocks that hold its keys and values, and how many positions are filled."""

    blocks: list[int] = field(default_factory=list)
    length: int = 0


class KVCache:
    """One pool of blocks for all layers: block b of every layer belongs to the same sequence.

    Memory is reserved for `positions` and touched only as sequences fill it. Raises MemoryBudgetError where the system
    cannot reserve it.
    """

    def __init__(self, layers: Seq[CacheLayer], *, dtype: str, positions: int) -> None:
        self.dtype = dtype
        self.n_blocks = -(-positions // BLOCK)
        self.offsets: list[int] = []
        total = 0
        for layer in layers:
            self.offsets.append(total)
            total += self.n_blocks * block_bytes(layer, dtype)
        self.bytes_per_position = position_bytes(layers, dtype)
        try:
            self.memory = _core.Cache(total)
        except RuntimeError as error:
            raise MemoryBudgetError(f"the key/value cache: {error}", hint="Load with a smaller context") from error
        self._free = list(range(self.n_blocks - 1, -1, -1))

    def grow(self, sequence: Sequence, length: int) -> None:
        """Gives the sequence blocks for `length` positions. Raises MemoryBudgetError when the pool is empty."""
        needed = -(-length // BLOCK) - len(sequence.blocks)
        if needed > len(self._free):
            raise MemoryBudgetError(
                "the key/value cache is full",
                expected=f"{needed} free blocks of {BLOCK} positions",
                found=str(len(self._free)),
                hint="Finish other sequences, or load with a larger context",
            )
        for _ in range(needed):
            sequence.blocks.append(self._free.pop())

    def release(self, sequence: Sequence) -> None:
        """Takes the sequence's blocks back; works after `close` too."""
        blocks, sequence.blocks, sequence.length = sequence.blocks, [], 0
        self._free.extend(reversed(blocks))

    def close(self) -> None:
        """Frees the memory."""
        del self.memory


def block_bytes(layer: CacheLayer, dtype: str) -> int:
    """Bytes of one block of one layer."""
    return BLOCK * layer.kv_heads * (layer.head_dim + layer.v_head_dim) * ELEMENT_BYTES[dtype]


def position_bytes(layers: Iterable[CacheLayer], dtype: str) -> int:
    """Bytes that all layers keep of one position."""
    return sum(block_bytes(layer, dtype) for layer in layers) // BLOCK


def cache_dtype(graph: Graph) -> str:
    """The cache's type: f16 for models with quantised weights, f32 for float ones, whose results f16 would round."""
    matrices = (o for op in graph.ops for o in op.operands.values() if isinstance(o, Weight))
    return "f16" if any(FORMATS[matrix.format].block > 1 for matrix in matrices) else "f32"
