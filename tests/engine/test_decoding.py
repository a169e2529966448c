"""Tokens drawn by a device: which steps are started, and when."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ferrule.engine.decoding import Decoder
from ferrule.engine.kv_cache import KVCache, Sequence
from ferrule.engine.sampling import GenerationOptions, Sampler
from ferrule.engine.step_inputs import Chunk

PROMPT = [1, 2, 3, 4, 5]


@dataclass
class Device:
    """Draws 10, 11, 12 ... and records what happens to its steps."""

    positions: int = 256
    max_tokens: int = 4
    draws_tokens: bool = True
    vocabulary: int = 100
    events: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.graph = SimpleNamespace(reread_lengths=set(), stretched_lengths=set())
        self.cache = KVCache([], dtype="f32", positions=self.positions)
        self.drawn = 9

    def _append(self, chunk: Chunk) -> None:
        self.cache.grow(chunk.sequence, chunk.sequence.length + len(chunk.tokens))
        chunk.sequence.tokens.extend(chunk.tokens)

    def forward(self, chunks: list[Chunk]) -> Any:
        self._append(chunks[0])
        self.events.append(("read", chunks[0].tokens, chunks[0].logits))
        return np.zeros((1, self.vocabulary), np.float32)

    def start(self, chunk: Chunk, draw: Any, previous: Any) -> Any:
        self._append(chunk)
        self.drawn += 1
        token = self.drawn
        self.events.append(("start", token, chunk.tokens if previous is None else "the drawn one"))

        def wait() -> int:
            self.events.append(("wait", token))
            return token

        return SimpleNamespace(wait=wait)


def run(device: Device, n: int, sequence: Sequence | None = None, **options: Any) -> list[int]:
    sampler = Sampler(GenerationOptions(**options), device.vocabulary)
    decoder, history = Decoder(device, sampler, sequence or Sequence(), limit=len(PROMPT) + n), list(PROMPT)  # type: ignore[arg-type]
    for _ in range(n):
        history.append(decoder.next(history))
    return history[len(PROMPT) :]


def test_a_step_is_started_before_the_token_that_it_reads_is_waited_for() -> None:
    device = Device()
    assert run(device, 3) == [10, 11, 12]
    assert device.events == [
        ("read", [1, 2, 3, 4], "none"),
        ("start", 10, [5]),
        ("start", 11, "the drawn one"),
        ("wait", 10),
        ("start", 12, "the drawn one"),
        ("wait", 11),
        ("wait", 12),
    ]


def test_what_was_read_ahead_is_known_once_it_is_drawn() -> None:
    device, sequence = Device(), Sequence()
    run(device, 3, sequence)
    assert sequence.tokens == [*PROMPT, 10, 11]
    decoder, history = Decoder(device, Sampler(GenerationOptions(), 100), sequence, limit=100), [*PROMPT, 10, 11, 6]  # type: ignore[arg-type]
    device.events.clear()
    assert decoder.reuse(history) == len(PROMPT) + 2
    assert decoder.next(history) == 13
    assert device.events[0] == ("start", 13, [6])
    assert sequence.tokens == [*history, 13]  # one more than is needed where 13 ends the text


def test_what_was_read_ahead_and_never_drawn_is_not_kept() -> None:
    device, sequence = Device(), Sequence()
    decoder = Decoder(device, Sampler(GenerationOptions(), 100), sequence, limit=100)  # type: ignore[arg-type]

    def wait() -> int:
        raise KeyboardInterrupt

    start = device.start
    device.start = lambda *arguments: start(*arguments) and SimpleNamespace(wait=wait)  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt) as interrupted:
        decoder.next(PROMPT)
    decoder.abandon(interrupted.value)
    assert sequence.length == len(PROMPT) + 1
    assert all(decoder.reuse([*PROMPT, token, 7]) == len(PROMPT) for token in range(100))


@pytest.mark.parametrize("options", [{"top_p": 0.9, "temperature": 1.0}, {"repetition_penalty": 1.1}], ids=str)
def test_what_needs_logits_is_drawn_on_the_host(options: dict[str, Any]) -> None:
    device = Device()
    run(device, 2, **options, seed=1)
    assert [event[0] for event in device.events] == ["read"] * 3


def test_a_text_that_outgrows_its_rotations_is_read_anew() -> None:
    device = Device(max_tokens=16)
    device.graph.reread_lengths.add(len(PROMPT) + 1)
    assert run(device, 3) == [10, 11, 12]
    assert ("start", 12, [*PROMPT, 10, 11]) in device.events


def test_a_full_cache_stops_only_the_step_ahead() -> None:
    device = Device(positions=64)
    sampler = Sampler(GenerationOptions(), device.vocabulary)
    decoder = Decoder(device, sampler, Sequence(), limit=100)  # type: ignore[arg-type]
    assert decoder.next(list(range(64))) == 10
    assert device.events[-1] == ("wait", 10)
