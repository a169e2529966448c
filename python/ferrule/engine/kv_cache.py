"""What sequences keep between steps: blocks of a paged key/value cache, handed out as they grow, and a state each."""

from __future__ import annotations

import math
from collections.abc import Iterable
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field

from .. import _core
from ..errors import MemoryBudgetError, OptionError, UnsupportedOp
from ..formats import FORMATS
from ..graph import CacheLayer, Experts, Graph, StateLayer
from ..lowering import layout
from ..lowering.targets import Target

BLOCK = _core.CACHE_BLOCK  # positions in a block (csrc/params/kv_cache.h)
STATE_SLOTS = 64  # sequences that may have a state at once
ALIGNMENT = 64  # of a layer's memory (csrc/plan/plan.h)


@dataclass(eq=False)
class Sequence:
    """One text in progress: the tokens that were read, and the blocks that hold their keys and values.

    `state_slot` is its place in the states of recurrent layers, -1 while it has none.
    """

    tokens: list[int] = field(default_factory=list)
    blocks: list[int] = field(default_factory=list)
    state_slot: int = -1

    @property
    def length(self) -> int:
        """How many positions are filled."""
        return len(self.tokens)


class KVCache:
    """One pool of blocks for all layers: block b of every layer belongs to the same sequence. So do slots of states.

    Memory is reserved for `positions` and touched only as sequences fill it, from its begin on: a block lies beside
    those of the same number of other layers. Raises MemoryBudgetError where the system cannot reserve it.
    """

    def __init__(self, layers: Seq[CacheLayer], *, dtype: str, positions: int, states: Seq[StateLayer] = ()) -> None:
        self.dtype = dtype
        self.n_blocks = -(-positions // BLOCK)
        self.places: dict[CacheLayer | StateLayer, tuple[int, int]] = {}  # offset, and bytes of all blocks or slots
        blocks_end, step = self._place_layers(layers)
        end = blocks_end
        for state in states:
            self.places[state] = end, STATE_SLOTS * state_bytes(state)
            end += -(-STATE_SLOTS * state_bytes(state) // ALIGNMENT) * ALIGNMENT
        self.bytes_per_position = position_bytes(layers, dtype)
        self.bytes_per_sequence = sum(state_bytes(state) for state in states)
        try:
            self.memory = _core.Cache(end, blocks_end)
        except RuntimeError as error:
            raise MemoryBudgetError(f"the key/value cache: {error}", hint="Load with a smaller context") from error
        self._free = list(range((self.n_blocks - 1) * step, -1, -step))
        self._free_slots = list(range(STATE_SLOTS - 1, -1, -1))

    def _place_layers(self, layers: Seq[CacheLayer]) -> tuple[int, int]:
        """Places the layers, and returns the end of their memory and the step from one block's number to the next's.

        Kernels find block number b of a layer at b times the bytes of its block. With numbers in steps of n, n layers
        whose blocks have the same bytes can share memory, the next layer beginning where the block of the one before
        ends.
        """
        alike: dict[int, list[CacheLayer]] = {}  # by the bytes of a block
        for layer in layers:
            alike.setdefault(BLOCK * layout.cache_bytes(layer, self.dtype), []).append(layer)
        step = math.gcd(*map(len, alike.values())) or 1
        end = 0
        for size, owners in alike.items():
            for i, layer in enumerate(owners):
                self.places[layer] = end + i % step * size, self.n_blocks * size
                if i % step == step - 1:
                    end += step * self.n_blocks * size
        return end, step

    def grow(self, sequence: Sequence, length: int) -> None:
        """Gives the sequence blocks for `length` positions and, the first time, a slot for its states.

        Raises MemoryBudgetError when none is left.
        """
        needed = -(-length // BLOCK) - len(sequence.blocks)
        if needed > len(self._free):
            raise MemoryBudgetError(
                "the key/value cache is full",
                expected=f"{needed} free blocks of {BLOCK} positions",
                found=str(len(self._free)),
                hint="Finish other sequences, or load with a larger context",
            )
        if self.bytes_per_sequence and sequence.state_slot < 0:
            if not self._free_slots:
                raise MemoryBudgetError(
                    "too many sequences at once for a model with recurrent layers",
                    expected=f"at most {STATE_SLOTS}",
                    hint="Finish other sequences",
                )
            sequence.state_slot = self._free_slots.pop()
        for _ in range(needed):
            sequence.blocks.append(self._free.pop())

    def release(self, sequence: Sequence, keep: int = 0) -> None:
        """Takes back what the sequence has beyond its first `keep` tokens, from 0 also its state slot.

        A state is that of all tokens: where there is one, fewer cannot be kept, but for none. Works after `close` too.
        """
        del sequence.tokens[keep:]
        kept = -(-keep // BLOCK)
        blocks, sequence.blocks = sequence.blocks[kept:], sequence.blocks[:kept]
        self._free.extend(reversed(blocks))
        if not keep and sequence.state_slot >= 0:
            self._free_slots.append(sequence.state_slot)
            sequence.state_slot = -1

    def close(self) -> None:
        """Frees the memory."""
        del self.memory


def position_bytes(layers: Iterable[CacheLayer], dtype: str) -> int:
    """Bytes that all layers keep of one position."""
    return sum(layout.cache_bytes(layer, dtype) for layer in layers)


def expanded_bytes(graph: Graph, dtype: str) -> int | None:
    """As position_bytes of the graph's layers, were keys and values kept in place of latents; None without latents."""
    kept = {layer: layout.cache_bytes(layer, dtype) for layer in graph.caches}
    latent = [op for op in graph.ops if op.kind == "latent_attention"]
    for op in latent:
        k_up, v_up, cache = (op.operands[name] for name in ("k_up", "v_up", "cache"))
        assert isinstance(k_up, Experts)
        assert isinstance(v_up, Experts)
        assert isinstance(cache, CacheLayer)
        widths = k_up.shape[2] + cache.head_dim, v_up.shape[1]
        kept[cache] = op.attributes["heads"] * sum(layout.vector_bytes(width, dtype) for width in widths)
    return sum(kept.values()) if latent else None


def state_bytes(state: StateLayer) -> int:
    """Bytes of one sequence's state of one layer."""
    return 4 * math.prod(state.shape)


def cache_dtype(graph: Graph, target: Target, asked: str = "auto") -> str:
    """The cache's type, where none is asked for: f16 for models with quantised weights, f32 for float ones, whose
    results f16 would round; and bf16 where a CPU rounds activations to as few bits anyway and multiplies bfloat16.

    Raises OptionError where bf16 is asked for latents, UnsupportedOp where the target does not multiply it.
    """
    latents = any(layer.kind == "latent" for layer in graph.caches)
    if asked == "bf16" and latents:
        raise OptionError("kv_dtype: latents are not kept in bf16", expected="f16, f32 or q8_0", found=asked)
    if asked == "bf16" and graph.caches and "attention_bf16" not in target.kernels:
        raise UnsupportedOp(
            f"kv_dtype: target {target.name} does not multiply bfloat16",
            expected="f16, f32 or q8_0",
            found=asked,
            hint="CPUs with AVX512-BF16 do",
        )
    if asked != "auto":
        return asked
    if target.activation_bits == 8 and "attention_bf16" in target.kernels and not latents:
        return "bf16"
    return "f16" if any(FORMATS[weight.format].block > 1 for weight in graph.weights) else "f32"
