"""Blocks and state slots are handed out as sequences grow, and taken back."""

import pytest

from ferrule.engine.kv_cache import BLOCK, STATE_SLOTS, KVCache, Sequence, position_bytes
from ferrule.errors import MemoryBudgetError
from ferrule.graph import Graph


def cache(*, blocks: int, recurrent: bool) -> KVCache:
    graph = Graph()
    graph.cache(1, 8, 8, 0)
    if recurrent:
        graph.state(3, 5)
        graph.state(7)
    return KVCache(graph.caches, dtype="f16", positions=blocks * BLOCK, states=graph.states)


def test_a_sequence_has_as_many_blocks_as_it_needs() -> None:
    pool, sequence = cache(blocks=4, recurrent=False), Sequence()
    for length, blocks in ((1, 1), (BLOCK, 1), (BLOCK + 1, 2), (4 * BLOCK, 4)):
        pool.grow(sequence, length)
        assert len(set(sequence.blocks)) == blocks
    with pytest.raises(MemoryBudgetError, match="full"):
        pool.grow(Sequence(), 1)
    pool.release(sequence)
    pool.grow(Sequence(), 4 * BLOCK)
    assert sequence.state_slot < 0


def test_every_sequence_has_a_state_slot_of_its_own_until_it_ends() -> None:
    pool = cache(blocks=2 * STATE_SLOTS, recurrent=True)
    sequences = [Sequence() for _ in range(STATE_SLOTS)]
    for sequence in sequences:
        pool.grow(sequence, 1)
        pool.grow(sequence, 2)
    assert sorted(sequence.state_slot for sequence in sequences) == list(range(STATE_SLOTS))
    waiting = Sequence()
    with pytest.raises(MemoryBudgetError, match="recurrent"):
        pool.grow(waiting, 1)
    assert not waiting.blocks
    freed = sequences[5].state_slot
    pool.release(sequences[5])
    pool.grow(waiting, 1)
    assert waiting.state_slot == freed


def test_layers_do_not_overlap() -> None:
    pool = cache(blocks=3, recurrent=True)
    end = 0
    for offset, size in pool.places.values():
        assert offset >= end
        assert offset % 64 == 0
        end = offset + size
    assert end <= pool.memory.bytes
    assert pool.bytes_per_sequence == 4 * (15 + 7)


def test_bytes_of_a_position() -> None:
    graph = Graph()
    graph.cache(2, 128, 40, 0)
    graph.index_cache(64)
    values = 2 * (128 + 40) + 64
    assert position_bytes(graph.caches, "f32") == 4 * values
    assert position_bytes(graph.caches, "f16") == 2 * values
    assert position_bytes(graph.caches, "q8_0") == values + 2 * (2 * (4 + 2) + 2)  # a scale for each 32 values
