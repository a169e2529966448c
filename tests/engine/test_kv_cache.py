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


def test_a_sequence_keeps_the_blocks_of_its_first_tokens() -> None:
    pool, sequence = cache(blocks=4, recurrent=True), Sequence()
    pool.grow(sequence, 3 * BLOCK)
    sequence.tokens.extend(range(3 * BLOCK))
    blocks, slot = list(sequence.blocks), sequence.state_slot
    for keep, kept in ((2 * BLOCK + 1, 3), (2 * BLOCK, 2), (1, 1)):
        pool.release(sequence, keep)
        assert (sequence.tokens, sequence.blocks, sequence.state_slot) == (list(range(keep)), blocks[:kept], slot)
        assert sorted(pool._free + sequence.blocks) == list(range(4))
    pool.release(sequence)
    assert (sequence.length, sequence.blocks, sequence.state_slot) == (0, [], -1)


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


def test_every_block_and_state_has_memory_of_its_own() -> None:
    graph = Graph()
    for head_dim in (8, 8, 4, 8, 4, 8):
        graph.cache(1, head_dim, head_dim, 0)
    graph.state(3, 5)
    graph.state(7)
    pool, sequence = KVCache(graph.caches, dtype="f16", positions=3 * BLOCK, states=graph.states), Sequence()
    pool.grow(sequence, 3 * BLOCK)
    blocks = []
    for layer in graph.caches:
        bytes_of_block = BLOCK * position_bytes([layer], "f16")
        offset, all_bytes = pool.places[layer]
        assert all_bytes == 3 * bytes_of_block
        blocks += [(offset + block * bytes_of_block, bytes_of_block) for block in sequence.blocks]
    states = [pool.places[state] for state in graph.states]
    assert pool.bytes_per_sequence == 4 * (15 + 7)
    end = 0
    for offset, size in sorted(blocks) + states:
        assert offset % 64 == 0
        assert offset >= end
        end = offset + size
    assert end <= pool.memory.bytes
    assert sum(size for _, size in blocks) == sorted(blocks)[-1][0] + sorted(blocks)[-1][1]  # without gaps


def test_the_first_blocks_of_layers_lie_together() -> None:
    graph = Graph()
    for _ in range(5):
        graph.cache(2, 16, 16, 0)
    pool = KVCache(graph.caches, dtype="f16", positions=100 * BLOCK)
    assert [pool.places[layer][0] for layer in graph.caches] == [i * BLOCK * 2 * 32 * 2 for i in range(5)]


def test_bytes_of_a_position() -> None:
    graph = Graph()
    graph.cache(2, 128, 40, 0)
    graph.index_cache(64)
    values = 2 * (128 + 40) + 64
    assert position_bytes(graph.caches, "f32") == 4 * values
    assert position_bytes(graph.caches, "f16") == 2 * values
    assert position_bytes(graph.caches, "q8_0") == values + 2 * (2 * (4 + 2) + 2)  # a scale for each 32 values
