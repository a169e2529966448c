"""One text being written: prefill, then a token at a time, as text that is safe to show."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import Literal

from ..errors import ContextLengthError, FerruleError
from ..tokenizer import Detokenizer, Tokenizer
from .decoding import Decoder
from .kv_cache import Sequence
from .runner import Runner
from .sampling import GenerationOptions, Sampler
from .stop_strings import StopStrings

FinishReason = Literal["stop", "length"]


@dataclass
class Timings:
    """Tokens and seconds of the two phases of a generation; time that the reader of a stream takes does not count.

    The first token comes out of the prompt's phase. `prompt_tokens` are those that it reads: not what a sequence held.
    """

    prompt_tokens: int = 0
    prompt_seconds: float = 0.0
    generated_tokens: int = 0
    generation_seconds: float = 0.0

    @property
    def prompt_tokens_per_second(self) -> float:
        """Speed of prefill; 0 before its end."""
        return self.prompt_tokens / self.prompt_seconds if self.prompt_seconds else 0.0

    @property
    def tokens_per_second(self) -> float:
        """Speed of decoding; 0 before the second token."""
        return (self.generated_tokens - 1) / self.generation_seconds if self.generation_seconds else 0.0

    def __str__(self) -> str:
        return (
            f"prompt {self.prompt_tokens} tokens at {self.prompt_tokens_per_second:.0f}/s, "
            f"{self.generated_tokens} tokens at {self.tokens_per_second:.1f}/s"
        )


@dataclass(frozen=True)
class StreamChunk:
    """A piece of a stream: text that no later token changes, and the tokens generated since the last piece."""

    text: str
    tokens: tuple[int, ...]


@dataclass(frozen=True)
class Completion:
    """A finished generation.

    `tokens` are those generated, without the end token; `text` ends before a stop string. `finish_reason` is "stop"
    after an end token or stop string, "length" at `max_new_tokens` or where the context is full.
    """

    text: str
    tokens: tuple[int, ...]
    finish_reason: FinishReason
    timings: Timings
    seed: int


class Stream(Iterator[StreamChunk]):
    """Iterates over the chunks of one generation, each of which one thread gets.

    Its part of the cache is given back at the end, by `close`, after an error, and when the stream is dropped. A given
    `sequence` stays the caller's: the stream goes on from the tokens that it has in common with the prompt.

    Attributes:
        finish_reason: why it ended (see Completion); None before that.
        timings: so far.
        seed: of the sampler, fresh where the options name none.
    """

    def __init__(
        self,
        runner: Runner,
        tokenizer: Tokenizer,
        prompt: Seq[int],
        options: GenerationOptions,
        *,
        context: int,
        sequence: Sequence | None = None,
    ) -> None:
        check_length(prompt, context - 1)
        sampler = Sampler(options, runner.vocabulary)
        self._detokenizer = Detokenizer(tokenizer, prompt)
        self._stop = StopStrings(tuple(options.stop))
        self._end_ids = frozenset[int]() if options.ignore_eos else tokenizer.end_ids
        self._history = list(prompt)
        self._limit = min(len(prompt) + options.max_new_tokens, context)
        own = Sequence()
        self._decoder = Decoder(runner, sampler, own if sequence is None else sequence, limit=self._limit)
        self._release = weakref.finalize(self, runner.cache.release, own)
        self._release.atexit = False
        self._lock = threading.Lock()
        self.seed = sampler.seed
        self.finish_reason: FinishReason | None = None
        self.timings = Timings(prompt_tokens=len(prompt))

    def __next__(self) -> StreamChunk:
        with self._lock:
            return self._advance()

    def _advance(self) -> StreamChunk:
        if self.finish_reason or not self._release.alive:
            raise StopIteration
        text, tokens = "", list[int]()
        try:
            while not text and not self.finish_reason:
                token = self._next_token()
                if token is not None:
                    tokens.append(token)
                    text = self._stop.feed(self._detokenizer.feed(token))
                    if len(self._history) == self._limit:
                        self.finish_reason = "length"
                if self.finish_reason:
                    text += self._stop.feed(self._detokenizer.flush())
                    text += self._stop.flush()
                if self._stop.found:
                    self.finish_reason = "stop"
        except BaseException as error:
            self.close()
            self._decoder.abandon(error)
            raise
        if self.finish_reason:
            self.close()
        if not text and not tokens:
            raise StopIteration
        return StreamChunk(text, tuple(tokens))

    def close(self) -> None:
        """Ends the generation early; iterating yields nothing more."""
        self._release()

    def result(self) -> Completion:
        """Runs to the end and returns what was not yielded before."""
        chunks = list(self)
        if self.finish_reason is None:
            raise FerruleError("the stream was closed before its end")
        tokens = tuple(token for chunk in chunks for token in chunk.tokens)
        return Completion("".join(c.text for c in chunks), tokens, self.finish_reason, self.timings, self.seed)

    def _next_token(self) -> int | None:
        """The next token; None after an end token."""
        started = time.perf_counter()
        if self.timings.prompt_seconds == 0:
            self.timings.prompt_tokens -= self._decoder.reuse(self._history)
        token = self._decoder.next(self._history)
        seconds = time.perf_counter() - started
        if self.timings.prompt_seconds == 0:
            self.timings.prompt_seconds = seconds
        elif token not in self._end_ids:
            self.timings.generation_seconds += seconds
        if token in self._end_ids:
            self.finish_reason = "stop"
            return None
        self.timings.generated_tokens += 1
        self._history.append(token)
        return token


def check_length(tokens: Seq[int], limit: int) -> None:
    """Raises ContextLengthError for no tokens or more than `limit`."""
    if not tokens:
        raise ContextLengthError("the prompt is empty", expected="at least one token")
    if len(tokens) > limit:
        raise ContextLengthError(
            "the prompt does not fit the context",
            expected=f"at most {limit} tokens",
            found=str(len(tokens)),
            hint="Shorten it, or load the model with a larger context if it has one",
        )
