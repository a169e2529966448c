"""Steps over several sequences: each gets the bits that it gets alone, however it is cut and whoever is beside it."""

import os
import random
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import gguf
import numpy as np
import pytest

import ferrule
import tiny_gguf
from ferrule.checkpoint import packages
from ferrule.engine.kv_cache import BLOCK, Sequence
from ferrule.engine.runner import Runner
from ferrule.engine.step_inputs import Chunk
from ferrule.errors import FerruleError, MemoryBudgetError

CACHES = ["gemma3_text", "mixtral", "deepseek_v3", "qwen3_next"]  # windows, experts, latents, states
# The models that packages carry have weights in Q4_1, Q4_K, Q5_0, Q6_K and Q8_0.
TINY = [*CACHES, "llama3_f16", "llama3 in Q4_0", "mixtral in Q8_0"]
MODELS = [*((name, 16) for name in TINY), *((name, 8) for name in ("llama3_f16", "mixtral", "deepseek_v3"))]
MODELS += [(package.name, bits) for package in packages.PACKAGES for bits in (16, 8)]
LENGTHS = [3, 1, 70, 17, 20, 65, 9, 30, 2, 33, 5, 12, 7, 1, 24, 12]


@pytest.fixture(scope="module", params=MODELS, ids=lambda param: f"{param[0]}-{param[1]}bits")
def model(
    request: pytest.FixtureRequest, tiny_model: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ferrule.Model]:
    """Float weights with an f32 cache, quantised ones with an f16 cache."""
    name, bits = request.param
    package = next((p for p in packages.PACKAGES if p.name == name), None)
    variant, _, kind = name.partition(" in ")
    if package:
        path = package.path(progress=False)
    elif kind:
        directory = tmp_path_factory.mktemp("quantised")
        whole = tiny_gguf.build(variant, directory / "whole.gguf")
        path = tiny_gguf.quantised(whole, directory / f"{kind}.gguf", gguf.GGMLQuantizationType[kind])
    else:
        path = tiny_model(variant)
    with ferrule.load(path, threads=2, activation_bits=bits) as model:
        yield model


def texts(vocabulary: int, count: int) -> list[list[int]]:
    return [[random.Random(i).randrange(vocabulary) for _ in range(LENGTHS[i])] for i in range(count)]


def alone(runner: Runner, ids: list[int]) -> np.ndarray:
    """Logits after each token, the text read in one step."""
    sequence = Sequence()
    rows = runner.forward([Chunk(sequence, ids, "all")])
    runner.cache.release(sequence)
    return rows


@pytest.mark.parametrize("count", [3, 16])
def test_a_batch_gives_the_bits_of_each_sequence_alone(model: ferrule.Model, count: int) -> None:
    """Prompts start at different steps and are cut at random, so that most steps mix prefill with single tokens."""
    runner, chance = model.runner, random.Random(count)
    ids = texts(runner.vocabulary, count)
    expected = [alone(runner, text) for text in ids]
    sequences = [Sequence() for _ in ids]
    mixed = 0
    while any(sequence.length < len(text) for sequence, text in zip(sequences, ids, strict=True)):
        chunks, wanted = [], []
        for text, sequence, logits in zip(ids, sequences, expected, strict=True):
            begin = sequence.length
            if begin == len(text) or chance.random() < 0.3:
                continue
            end = min(begin + chance.choice([1, 1, 1, 5, 31, 70]), len(text))
            kind = chance.choice(["last", "all", "none"])
            chunks.append(Chunk(sequence, text[begin:end], kind))
            wanted.append(logits[{"last": end - 1, "all": begin, "none": end}[kind] : end])
        if chunks:
            sizes = {len(chunk.tokens) > 1 for chunk in chunks}
            mixed += len(sizes) == 2
            out = np.full((sum(map(len, wanted)), runner.vocabulary), np.nan, np.float32)
            np.testing.assert_array_equal(runner.forward(chunks, out), np.concatenate(wanted))
    assert mixed >= 2
    for sequence in sequences:
        runner.cache.release(sequence)


def test_sixteen_decode_rows_have_the_bits_of_one(model: ferrule.Model) -> None:
    runner = model.runner
    ids = texts(runner.vocabulary, 16)
    expected = [alone(runner, [*text, 42])[-1] for text in ids]
    sequences = [Sequence() for _ in ids]
    for text, sequence in zip(ids, sequences, strict=True):
        runner.forward([Chunk(sequence, text, "none")])
    together = runner.forward([Chunk(sequence, [42]) for sequence in sequences])
    np.testing.assert_array_equal(together, expected)
    for sequence in sequences:
        runner.cache.release(sequence)


@pytest.mark.parametrize("variant", CACHES)
def test_the_cache_of_an_ended_sequence_serves_the_next(tiny_model: Callable[..., Path], variant: str) -> None:
    """What earlier sequences left in blocks and states does not matter."""
    with ferrule.load(tiny_model(variant)) as model:
        runner = model.runner
        ids = texts(runner.vocabulary, 4)[2]
        runner.cache.memory.array[:] = 0xFF  # NaN
        expected = alone(runner, ids)
        assert np.isfinite(expected).all()
        alone(runner, [1] * 250)
        np.testing.assert_array_equal(alone(runner, ids), expected)


def test_threads_take_turns(tiny_model: Callable[..., Path]) -> None:
    with ferrule.load(tiny_model("llama3"), threads=2) as model:
        runner = model.runner
        ids = texts(runner.vocabulary, 4)
        expected = [alone(runner, text) for text in ids]
        failures: list[BaseException] = []

        def work(index: int) -> None:
            try:
                for _ in range(20):
                    np.testing.assert_array_equal(alone(runner, ids[index]), expected[index])
            except BaseException as error:
                failures.append(error)

        workers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert not failures


def test_a_full_cache_is_an_error_and_stays_usable(tiny_model: Callable[..., Path]) -> None:
    with ferrule.load(tiny_model("llama3")) as model:
        cache, sequence, other = model.runner.cache, Sequence(), Sequence()
        cache.grow(sequence, (cache.n_blocks - 1) * BLOCK)
        with pytest.raises(MemoryBudgetError, match="2 free blocks of 64 positions; found 1"):
            model.runner.forward([Chunk(other, [1] * (BLOCK + 1))])
        assert other.blocks == []
        cache.release(sequence)
        assert model.runner.forward([Chunk(other, [1] * (BLOCK + 1))]).shape == (1, model.runner.vocabulary)
        cache.release(other)
        assert len(cache._free) == len(set(cache._free)) == cache.n_blocks


def test_close_frees_what_the_runner_holds(tiny_model: Callable[..., Path]) -> None:
    model = ferrule.load(tiny_model("llama3"), threads=1)
    runner = model.runner
    alone(runner, [1, 2, 3])
    graph, cache_bytes, before = weakref.ref(model.architecture.graph), runner.cache.memory.bytes, address_space()
    model.close()
    assert graph() is None
    assert cache_bytes >= 1 << 24
    assert before == 0 or address_space() <= before - cache_bytes
    with pytest.raises(FerruleError, match="the model is closed"):
        runner.forward([Chunk(Sequence(), [1])])
    runner.close()


def address_space() -> int:
    """Bytes that this process has mapped; 0 where the system does not say."""
    path = Path("/proc/self/statm")
    return int(path.read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE") if path.exists() else 0
