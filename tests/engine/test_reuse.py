"""Generations that go on in a sequence: the same tokens as without, from fewer that are read."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import ferrule
import tiny_adapters
from ferrule.engine import step_inputs
from ferrule.engine.kv_cache import Sequence
from ferrule.errors import ContextLengthError, OptionError

NEW = 6  # tokens of an answer


def tokens(count: int) -> list[int]:
    return random.Random(count).choices(range(3, 380), k=count)


def conversation(model: ferrule.Model, turns: list[tuple[int, int]], sequence: Sequence | None) -> list[Any]:
    """Greedy answers. Each turn takes off as many tokens from the text so far as it says, and adds as many."""
    text, answers = [], []
    for cut, added in turns:
        text = [*text[: len(text) - cut], *tokens(added)]
        answer = model.generate(text, sequence=sequence, max_new_tokens=NEW, temperature=0, ignore_eos=True).tokens
        text = [*text, *answer]
        answers.append(answer)
    return answers


@contextmanager
def counted(model: ferrule.Model, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many tokens each generation reads, its own but for the last included."""
    stream, forward, counts = model.stream, model.runner.forward, list[int]()

    def counting_stream(*arguments: Any, **options: Any) -> Any:
        counts.append(0)
        return stream(*arguments, **options)

    def counting_forward(chunks: list[step_inputs.Chunk], *arguments: Any, **options: Any) -> Any:
        counts[-1] += sum(len(chunk.tokens) for chunk in chunks)
        return forward(chunks, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(model, "stream", counting_stream)
        patch.setattr(model.runner, "forward", counting_forward)
        yield counts


# Turns that go on, go on from the middle of the answer before, and from far before it.
TURNS = [(0, 70), (0, 20), (4, 10), (80, 5)]
NEWEST = [70, 21, 10, 5]  # the last token of an answer is not read when it is drawn
STATES = [70, 21, 108, 39]
CASES = {
    "llama3": (TURNS, NEWEST),
    "bloom": (TURNS, NEWEST),  # biases by distance
    "gemma3_text": (TURNS, NEWEST),  # windows
    "llama4_chunk": (TURNS, NEWEST),
    "mixtral": (TURNS, NEWEST),
    "deepseek_v3": (TURNS, NEWEST),  # latents
    "deepseek_v32": (TURNS, NEWEST),  # positions selected by keys of their own
    "mamba": (TURNS, STATES),
    "qwen3_next": (TURNS, STATES),
    "lfm2": (TURNS, STATES),
    "llama3 with llama3-patterns": (TURNS, NEWEST),
    "phi3_longrope_cross": ([(0, 20), (0, 10), (0, 10), (0, 10), (40, 4)], [20, 11, 52, 11, 38]),  # up to 44, and more
    "llama_dynamic": ([(0, 8), (0, 3), (0, 3), (6, 3), (20, 2)], [8, 4, 26, 29, 17]),  # up to 24, and more
}


@pytest.mark.parametrize("case", CASES)
def test_turns_read_what_is_new_and_give_the_same_tokens(
    tiny_model: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    variant, _, adapter = case.partition(" with ")
    turns, read = CASES[case]
    lora = tiny_adapters.build(adapter, tmp_path) if adapter else None
    with ferrule.load(tiny_model(variant), adapter=lora, threads=2) as model:
        free = len(model.runner.cache._free)
        expected = conversation(model, turns, None)
        with counted(model, monkeypatch) as counts, model.sequence() as sequence:
            assert conversation(model, turns, sequence) == expected
            assert counts == [count + NEW - 1 for count in read]
            assert len(sequence.blocks) == -(-sequence.length // 64)
        assert len(model.runner.cache._free) == free
        assert len(model.runner.cache._free_slots) == 64


@pytest.mark.parametrize(("variant", "again"), [("llama3", 1), ("mamba", 30)])
def test_a_prompt_that_is_held_whole_is_read_from_its_last_token(
    tiny_model: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, variant: str, again: int
) -> None:
    options = {"max_new_tokens": NEW, "temperature": 1.0, "repetition_penalty": 1.5, "seed": 4, "ignore_eos": True}
    with ferrule.load(tiny_model(variant)) as model, model.sequence() as sequence:
        expected = model.generate(tokens(30), **options)
        with counted(model, monkeypatch) as counts:
            found = [model.generate(tokens(30), sequence=sequence, **options) for _ in range(2)]
        assert [completion.tokens for completion in found] == [expected.tokens] * 2
        assert counts == [30 + NEW - 1, again + NEW - 1]
        assert [completion.timings.prompt_tokens for completion in found] == [30, again]


# In chunks of 16, a step ends with an error before its tokens count; the next prompt keeps some of those of the first.
@pytest.mark.parametrize(
    ("variant", "error", "length", "step", "kept", "read"),
    [
        ("llama3", KeyboardInterrupt, 30, 3, 30, 10),
        ("llama3", KeyboardInterrupt, 40, 3, 40, 18),
        ("llama3", RuntimeError, 30, 3, 30, 40),
        ("mamba", KeyboardInterrupt, 30, 3, 30, 40),
        ("phi3_longrope_cross", KeyboardInterrupt, 50, 2, 20, 30),  # 16 tokens were read as part of a long text
        ("llama_dynamic", KeyboardInterrupt, 30, 2, 10, 20),
    ],
)
def test_after_an_error_only_what_is_sure_is_kept(
    tiny_model: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    variant: str,
    error: type[BaseException],
    length: int,
    step: int,
    kept: int,
    read: int,
) -> None:
    options = {"max_new_tokens": NEW, "temperature": 0, "ignore_eos": True}
    with ferrule.load(tiny_model(variant)) as model, model.sequence() as sequence:
        free, forward, steps = len(model.runner.cache._free), model.runner.forward, []
        monkeypatch.setattr(model.runner, "max_tokens", 16)

        def broken(chunks: list[step_inputs.Chunk]) -> Any:
            logits = forward(chunks)
            steps.append(len(chunks[0].tokens))
            if len(steps) == step:
                del sequence.tokens[-steps[-1] :]
                raise error
            return logits

        with monkeypatch.context() as patch, pytest.raises(error):
            patch.setattr(model.runner, "forward", broken)
            model.generate(tokens(length), sequence=sequence, **options)
        text = [*tokens(length)[:kept], *tokens(10)]
        expected = model.generate(text, **options).tokens
        with counted(model, monkeypatch) as counts:
            assert model.generate(text, sequence=sequence, **options).tokens == expected
        assert counts == [read + NEW - 1]
        model.runner.cache.release(sequence)
        assert len(model.runner.cache._free) == free


def test_a_prompt_that_is_refused_leaves_the_sequence_as_it_is(tiny_model: Callable[..., Path]) -> None:
    with ferrule.load(tiny_model("llama3"), context=64) as model, model.sequence() as sequence:
        model.generate(tokens(10), sequence=sequence, max_new_tokens=2, ignore_eos=True)
        held = list(sequence.tokens)
        with pytest.raises(ContextLengthError):
            model.generate([*tokens(10), *tokens(60)], sequence=sequence)
        assert sequence.tokens == held
        assert len(held) == 11


def test_a_sequence_is_of_one_model_until_its_end(tiny_model: Callable[..., Path]) -> None:
    with ferrule.load(tiny_model("llama3")) as model, ferrule.load(tiny_model("llama3")) as other:
        with model.sequence() as sequence, pytest.raises(OptionError, match="no sequence of this model"):
            other.generate(tokens(3), sequence=sequence)
        with pytest.raises(OptionError, match="no sequence of this model"):
            model.generate(tokens(3), sequence=sequence)


@pytest.mark.parametrize("variant", ["llama3", "qwen3", "qwen3_next"])
def test_chats(tiny_model: Callable[..., Path], variant: str) -> None:
    """One answer is cut off, one ends before a stop string, one is left in its middle."""

    def talk(model: ferrule.Model, sequence: Sequence | None) -> tuple[list[str], list[int]]:
        messages, answers, read = [], [], []
        for turn, options in enumerate(({"max_new_tokens": 9}, {"stop": "e"}, {}, {"max_new_tokens": 3})):
            messages.append({"role": "user", "content": f"This is question number {turn}."})
            stream = model.stream_chat(messages, sequence=sequence, temperature=0, **options)
            chunks = zip(range(3 if turn == 2 else 100), stream, strict=False)
            answers.append("".join(chunk.text for _, chunk in chunks))
            messages.append({"role": "assistant", "content": answers[-1]})
            read.append(stream.timings.prompt_tokens)
        return answers, read

    with ferrule.load(tiny_model(variant)) as model:
        expected, whole = talk(model, None)
        with model.sequence() as sequence:
            answers, read = talk(model, sequence)
        assert answers == expected
        if not model.runner.cache.bytes_per_sequence:
            assert all(new < sum(whole) / 8 for new in read), (read, whole)
