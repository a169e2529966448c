"""The arrays that the host makes afresh for every step, by the names that graphs give their inputs."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .kv_cache import BLOCK, Sequence

Logits = Literal["none", "last", "all"]


@dataclass(frozen=True)
class Chunk:
    """Tokens to append to a sequence in this step, and of which of them the logits are wanted.

    `length` is that of the whole prompt where `tokens` are a part of it.
    """

    sequence: Sequence
    tokens: Seq[int]
    logits: Logits = "last"
    length: int = 0


@dataclass(frozen=True)
class StepInputs:
    """Everything a program needs for one step over some chunks: how much there is of each dimension, and `arrays`.

    i32: tokens, positions, lengths, slots [tokens]; axis_positions [3 * tokens]; block_table [blocks of all chunks];
    rows [rows]; state_slots [sequences]. u32: spans [sequences, 4], a `Span` of csrc/params/kv_cache.h for each chunk.
    """

    tokens: int
    rows: int
    sequences: int
    arrays: dict[str, NDArray[Any]]


def step_inputs(chunks: Seq[Chunk]) -> StepInputs:
    """Lays the chunks' tokens side by side. The sequences must own blocks for their new length already."""
    positions, lengths, slots, spans, table = [], [], [], [], []
    rows: list[int] = []
    row = block = 0
    for chunk in chunks:
        n, begin = len(chunk.tokens), chunk.sequence.length
        blocks = np.asarray(chunk.sequence.blocks, np.int32)
        where = np.arange(begin, begin + n, dtype=np.int32)
        positions.append(where)
        lengths.append(np.full(n, max(chunk.length, begin + n), np.int32))
        slots.append(blocks[where // BLOCK] * BLOCK + where % BLOCK)
        spans.append((row, n, begin, block))
        table.append(blocks)
        if chunk.logits != "none":
            rows.extend(range(row if chunk.logits == "all" else row + n - 1, row + n))
        row += n
        block += len(blocks)
    arrays = {
        "tokens": np.concatenate([np.asarray(chunk.tokens, np.int32) for chunk in chunks]),
        "positions": np.concatenate(positions),
        "axis_positions": np.repeat(np.concatenate(positions), 3),
        "lengths": np.concatenate(lengths),
        "slots": np.concatenate(slots),
        "spans": np.asarray(spans, np.uint32),
        "block_table": np.concatenate(table),
        "rows": np.asarray(rows, np.int32),
        "state_slots": np.array([chunk.sequence.state_slot for chunk in chunks], np.int32),
    }
    return StepInputs(row, len(rows), len(chunks), arrays)
