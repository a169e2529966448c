"""One text being written: prefill, then a token at a time, as text that is safe to show."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence as Seq
from dataclasses import dataclass, field
from typing import Literal

from ..errors import ContextLengthError
from ..tokenizer import Tokenizer
from ..tokenizer.detokenizer import Detokenizer
from .kv_cache import Sequence
from .runner import Runner
from .sampling import GenerationOptions, Sampler
from .step_inputs import Chunk as StepChunk
from .stop_strings import StopStrings

FinishReason = Literal["stop", "length"]


@dataclass
class Timings:
    """Tokens and seconds of the two phases of a generation."""

    prompt_tokens: int = 0
    prompt_seconds: float = 0.0
    generated_tokens: int = 0
    generation_seconds: float = 0.0

    @property
    def prompt_tokens_per_second(self) -> float:
        """Speed of prefill."""
        return self.prompt_tokens / self.prompt_seconds if self.prompt_seconds else 0.0

    @property
    def tokens_per_second(self) -> float:
        """Speed of decoding: the first token comes from prefill."""
        return (self.generated_tokens - 1) / self.generation_seconds if self.generation_seconds else 0.0

    def __str__(self) -> str:
        return (
            f"prompt {self.prompt_tokens} tokens at {self.prompt_tokens_per_second:.0f}/s, "
            f"{self.generated_tokens} tokens at {self.tokens_per_second:.1f}/s"
        )


@dataclass(frozen=True)
class Chunk:
    """A piece of a stream: text that no later token changes, and the tokens read since the last piece."""

    text: str
    tokens: tuple[int, ...]


@dataclass(frozen=True)
class Completion:
    """A finished generation. `tokens` are those generated, without the end token; `text` ends before a stop string."""

    text: str
    tokens: tuple[int, ...]
    finish_reason: FinishReason
    timings: Timings
    seed: int


@dataclass(eq=False)
class Stream(Iterator[Chunk]):
    """Iterates over the chunks of one generation; after the last, `finish_reason` says why it ended."""

    runner: Runner
    tokenizer: Tokenizer
    prompt: Seq[int]
    options: GenerationOptions
    context: int
    finish_reason: FinishReason | None = None
    timings: Timings = field(default_factory=Timings)

    def __post_init__(self) -> None:
        if not self.prompt:
            raise ContextLengthError("the prompt is empty", expected="at least one token")
        if len(self.prompt) >= self.context:
            raise ContextLengthError(
                "the prompt does not fit the context",
                expected=f"fewer than {self.context} tokens",
                found=str(len(self.prompt)),
                hint="Shorten the prompt, or load with a larger context",
            )
        self._sampler = Sampler(self.options, self.runner.vocabulary)
        self.seed = self._sampler.seed
        self._chunks = self._run()

    def __next__(self) -> Chunk:
        return next(self._chunks)

    def close(self) -> None:
        """Ends the generation and gives its cache back."""
        self._chunks.close()

    def result(self) -> Completion:
        """Runs to the end and returns everything that was generated."""
        chunks = list(self)
        assert self.finish_reason is not None
        tokens = tuple(token for chunk in chunks for token in chunk.tokens)
        return Completion("".join(c.text for c in chunks), tokens, self.finish_reason, self.timings, self.seed)

    def _run(self) -> Iterator[Chunk]:
        detokenizer, stop = Detokenizer(self.tokenizer, self.prompt), StopStrings(self.options.stop)
        held: list[int] = []  # tokens whose text is not safe to show yet
        for token in self._tokens():
            held.append(token)
            text = stop.feed(detokenizer.feed(token))
            if stop.found:
                self.finish_reason = "stop"
            if text or stop.found:
                yield Chunk(text, tuple(held))
                held = []
            if stop.found:
                return
        text = stop.feed(detokenizer.flush())
        text += stop.flush()
        if stop.found:
            self.finish_reason = "stop"
        if text or held:
            yield Chunk(text, tuple(held))

    def _tokens(self) -> Iterator[int]:
        sequence, history = Sequence(), list(self.prompt)
        end_ids = frozenset() if self.options.ignore_eos else self.tokenizer.end_ids
        started = time.perf_counter()
        try:
            logits = self._prefill(sequence)
            self.timings.prompt_tokens = len(self.prompt)
            self.timings.prompt_seconds = time.perf_counter() - started
            started = time.perf_counter()
            while True:
                token = self._sampler.sample(logits[0], history)
                if token in end_ids:
                    self.finish_reason = "stop"
                    return
                history.append(token)
                self.timings.generated_tokens += 1
                self.timings.generation_seconds = time.perf_counter() - started
                yield token
                if self.timings.generated_tokens >= self.options.max_new_tokens or len(history) >= self.context:
                    self.finish_reason = "length"
                    return
                logits = self.runner.forward([StepChunk(sequence, [token])])
        finally:
            self.runner.cache.release(sequence)

    def _prefill(self, sequence: Sequence) -> object:
        size = self.runner.max_tokens
        for begin in range(0, len(self.prompt), size):
            end = min(begin + size, len(self.prompt))
            last = end == len(self.prompt)
            logits = self.runner.forward([StepChunk(sequence, self.prompt[begin:end], "last" if last else "none")])
        return logits
