"""Streams over a runner that says what the test wrote: text, stop strings, end tokens, cache and timings."""

import gc
import time
from collections.abc import Iterator, Sequence
from types import SimpleNamespace

import numpy as np
import pytest

from ferrule import tokenizer
from ferrule.checkpoint import open_checkpoint, packages
from ferrule.engine import step_inputs
from ferrule.engine.generation import Stream
from ferrule.engine.kv_cache import KVCache
from ferrule.engine.sampling import GenerationOptions
from ferrule.errors import ContextLengthError, FerruleError

TEXT = "Thumbs up 👍🏽, naïve café; 日本語のテキスト. The end, 🇩🇪!"
CONTEXT = 200
POOL_BLOCKS = 8


class ScriptedRunner:
    """Forces the given tokens, one after the other, whatever it is fed, and records its steps."""

    max_tokens = 16
    draws_tokens = False

    def __init__(self, script: Sequence[int], vocabulary: int) -> None:
        self.script = script
        self.vocabulary = vocabulary
        self.cache = KVCache([], dtype="f32", positions=64 * POOL_BLOCKS)
        self.graph = SimpleNamespace(reread_lengths=set(), stretched_lengths=set())
        self.steps: list[tuple[list[int], str]] = []

    def forward(self, chunks: Sequence[step_inputs.Chunk]) -> np.ndarray:
        (chunk,) = chunks
        self.cache.grow(chunk.sequence, chunk.sequence.length + len(chunk.tokens))
        chunk.sequence.tokens.extend(chunk.tokens)
        self.steps.append((list(chunk.tokens), chunk.logits))
        if chunk.logits == "none":
            return np.empty((0, self.vocabulary), np.float32)
        logits = np.zeros((1, self.vocabulary), np.float32)
        logits[0, self.script[sum(kind == "last" for _, kind in self.steps) - 1]] = 1
        return logits

    def free_blocks(self) -> int:
        return len(self.cache._free)


@pytest.fixture(scope="module")
def words() -> tokenizer.Tokenizer:
    smollm2 = next(p for p in packages.PACKAGES if p.name.startswith("SmolLM2"))
    return tokenizer.load_tokenizer(open_checkpoint(smollm2.path()))


def stream(words: tokenizer.Tokenizer, script: Sequence[int], prompt: Sequence[int] = (5, 6), **options) -> Stream:
    runner = ScriptedRunner(script, 49152)
    return Stream(runner, words, prompt, GenerationOptions(**options), context=CONTEXT)  # type: ignore[arg-type]


def test_pieces_hold_whole_characters(words: tokenizer.Tokenizer) -> None:
    ids = words.encode(TEXT)
    assert any("\ufffd" in words.decode([token]) for token in ids)  # characters are spread over tokens
    chunks = list(stream(words, ids, max_new_tokens=len(ids)))
    assert "".join(chunk.text for chunk in chunks) == TEXT
    assert [token for chunk in chunks for token in chunk.tokens] == ids
    assert not any("\ufffd" in chunk.text for chunk in chunks)
    assert len(chunks) > 10


def test_text_is_the_decoding_of_the_tokens_wherever_it_ends(words: tokenizer.Tokenizer) -> None:
    ids = words.encode(TEXT)
    for n in range(1, len(ids)):
        completion = stream(words, ids, max_new_tokens=n).result()
        assert completion.tokens == tuple(ids[:n])
        assert completion.text == words.decode(ids[:n])
        assert completion.finish_reason == "length"


def test_a_character_that_the_prompt_began_is_completed(words: tokenizer.Tokenizer) -> None:
    ids = words.encode("👍🏽 yes")
    assert words.decode(ids[:1]) == "\ufffd"
    completion = stream(words, ids[1:], ids[:1], max_new_tokens=len(ids) - 1).result()
    assert completion.text == "👍🏽 yes"


@pytest.mark.parametrize("stop", ["日本", "語", " café", "👍🏽, n", "end, 🇩", ("zzz", "naïve", "ve c"), "T"])
def test_no_part_of_a_stop_string_is_shown(words: tokenizer.Tokenizer, stop: str | tuple[str, ...]) -> None:
    ids = words.encode(TEXT)
    stops = (stop,) if isinstance(stop, str) else stop
    expected = min((TEXT.partition(s)[0] for s in stops), key=len)
    chunks, running = [], stream(words, ids, max_new_tokens=len(ids), stop=stop)
    shown = ""
    for chunk in running:
        shown += chunk.text
        assert expected.startswith(shown)
        chunks.append(chunk)
    assert shown == expected
    assert running.finish_reason == "stop"
    tokens = [token for chunk in chunks for token in chunk.tokens]
    assert tokens == ids[: len(tokens)]
    assert any(s in words.decode(tokens) for s in stops)
    assert not any(s in words.decode(tokens[:-1]) for s in stops)


def test_a_beginning_of_a_stop_string_is_shown_at_the_end(words: tokenizer.Tokenizer) -> None:
    ids = words.encode("one two")
    completion = stream(words, ids, max_new_tokens=len(ids), stop=" two three").result()
    assert (completion.text, completion.finish_reason) == ("one two", "length")


def test_every_end_token_stops(words: tokenizer.Tokenizer) -> None:
    assert len(words.end_ids) == 2
    for end in words.end_ids:
        script = [*words.encode("so it is"), end, *words.encode(" more")]
        running = stream(words, script)
        completion = running.result()
        assert (completion.text, completion.finish_reason) == ("so it is", "stop")
        assert end not in completion.tokens
        going_on = stream(words, script, max_new_tokens=len(script), ignore_eos=True).result()
        assert going_on.tokens == tuple(script)
        assert going_on.text == "so it is more"


def test_an_end_token_at_once_gives_no_chunk(words: tokenizer.Tokenizer) -> None:
    end = min(words.end_ids)
    assert list(stream(words, [end])) == []
    assert stream(words, [end]).result().text == ""


def test_it_ends_where_the_context_is_full(words: tokenizer.Tokenizer) -> None:
    running = stream(words, [7] * CONTEXT, [5] * (CONTEXT - 3), max_new_tokens=50)
    completion = running.result()
    assert completion.tokens == (7, 7, 7)
    assert completion.finish_reason == "length"


@pytest.mark.parametrize("length", [0, CONTEXT, CONTEXT + 50])
def test_a_prompt_of_wrong_length_is_refused_before_any_step(words: tokenizer.Tokenizer, length: int) -> None:
    with pytest.raises(ContextLengthError, match="empty" if length == 0 else f"at most 199 tokens; found {length}"):
        stream(words, [7], [5] * length)


def test_prefill_in_chunks_asks_for_one_row_of_logits(words: tokenizer.Tokenizer) -> None:
    prompt = list(range(40))
    running = stream(words, [7, 8, 9], prompt, max_new_tokens=3)
    assert running.result().tokens == (7, 8, 9)
    assert (
        running._decoder._runner.steps
        == [  # type: ignore[attr-defined]
            (prompt[:16], "none"),
            (prompt[16:32], "none"),
            (prompt[32:], "last"),
            ([7], "last"),
            ([8], "last"),
        ]
    )


def test_a_text_that_outgrows_its_rotations_is_read_anew(words: tokenizer.Tokenizer) -> None:
    runner = ScriptedRunner([7, 8, 9, 10], 49152)
    runner.graph.reread_lengths.add(5)
    options = GenerationOptions(max_new_tokens=4)
    completion = Stream(runner, words, [1, 2, 3, 4], options, context=CONTEXT).result()  # type: ignore[arg-type]
    assert completion.tokens == (7, 8, 9, 10)
    assert [tokens for tokens, _ in runner.steps] == [[1, 2, 3, 4], [7], [1, 2, 3, 4, 7, 8], [9]]
    assert runner.free_blocks() == POOL_BLOCKS


def test_the_cache_is_given_back(words: tokenizer.Tokenizer) -> None:
    script = [500] * 200

    def opened() -> tuple[Stream, ScriptedRunner]:
        running = stream(words, script, [5] * 100, max_new_tokens=90)
        next(running)
        assert running._decoder._runner.free_blocks() == POOL_BLOCKS - 2  # type: ignore[attr-defined]
        return running, running._decoder._runner  # type: ignore[return-value]

    running, runner = opened()
    running.result()
    assert runner.free_blocks() == POOL_BLOCKS

    running, runner = opened()
    running.close()
    running.close()
    assert runner.free_blocks() == POOL_BLOCKS
    assert list(running) == []
    with pytest.raises(FerruleError, match="closed before its end"):
        running.result()

    gc.disable()  # dropping the last reference is enough
    try:
        running, runner = opened()
        del running
        assert runner.free_blocks() == POOL_BLOCKS
    finally:
        gc.enable()

    def interrupted(chunks: Sequence[step_inputs.Chunk]) -> np.ndarray:
        raise KeyboardInterrupt

    running, runner = opened()
    runner.forward = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        running.result()
    assert runner.free_blocks() == POOL_BLOCKS


def test_an_exception_thrown_into_a_reader_gives_the_cache_back(words: tokenizer.Tokenizer) -> None:
    running = stream(words, [500] * 50)
    runner = running._decoder._runner

    def reader(chunks: Iterator) -> Iterator[str]:
        for chunk in chunks:
            yield chunk.text

    texts = reader(running)
    del running
    next(texts)
    with pytest.raises(RuntimeError):
        texts.throw(RuntimeError("stop"))  # type: ignore[attr-defined]
    assert runner.free_blocks() == POOL_BLOCKS  # type: ignore[attr-defined]


def test_timings_count_steps_and_not_the_reader(words: tokenizer.Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    running = stream(words, [7, 8, 9, min(words.end_ids)], [5] * 20)
    runner = running._decoder._runner
    forward = runner.forward

    def timed(chunks: Sequence[step_inputs.Chunk]) -> np.ndarray:
        now[0] += 4.0 if len(chunks[0].tokens) > 1 else 0.5
        return forward(chunks)

    runner.forward = timed  # type: ignore[method-assign]
    for _ in running:
        now[0] += 1000
    timings = running.timings
    assert (timings.prompt_tokens, timings.prompt_seconds, timings.prompt_tokens_per_second) == (20, 8.0, 2.5)
    assert (timings.generated_tokens, timings.generation_seconds, timings.tokens_per_second) == (3, 1.0, 2.0)
