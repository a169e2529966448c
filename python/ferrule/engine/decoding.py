"""Where the tokens of one text come from: the model reads what it has not seen, then one is drawn.

Where the device has a kernel for what the options ask, it draws too: only tokens come back, and the step that reads a
token is started before the token is known. Else logits come to the host.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq

from ..errors import MemoryBudgetError
from .kv_cache import Sequence
from .runner import DrawnToken, Runner
from .sampling import Sampler
from .step_inputs import Chunk

_UNKNOWN = -1  # a token that is read before it is known; equal to none


class Decoder:
    """The tokens after a prompt, one by one. `limit` is the length at which the text ends, whatever comes."""

    def __init__(self, runner: Runner, sampler: Sampler, sequence: Sequence, *, limit: int) -> None:
        self.sequence = sequence
        self._runner = runner
        self._sampler = sampler
        self._limit = limit
        self._reread = runner.graph.reread_lengths
        self._stretched = runner.graph.stretched_lengths
        self._on_device = runner.draws_tokens and not sampler.needs_logits
        self._ahead: DrawnToken | None = None  # the next token, if the step that draws it was started

    def reuse(self, prompt: Seq[int]) -> int:
        """Rolls the sequence back to the tokens that it has in common with `prompt`, but for the last; their number.

        A state goes on from all tokens or none, and keys stay only if the prompt's length rotates them alike.
        """
        held, cache = self.sequence.tokens, self._runner.cache
        before, after = len(held), len(prompt)
        pairs = zip(held, prompt[:-1], strict=False)
        common = next((i for i, (old, new) in enumerate(pairs) if old != new), min(before, after - 1))
        if (
            (cache.bytes_per_sequence and common < before)
            or any((before > limit) != (after > limit) for limit in self._reread)
            or any(max(before, after) > limit for limit in self._stretched)
        ):
            common = 0
        cache.release(self.sequence, common)
        return common

    def abandon(self, error: BaseException) -> None:
        """Empties the sequence if, after this error, it may hold something else than its tokens.

        A step that Ctrl-C ends was done all the same. What it wrote beyond the tokens will be written over; but a state
        is then ahead of them, and of a prompt that was not read to its end the length is not known, nor the rotations.
        """
        cache = self._runner.cache
        if not isinstance(error, KeyboardInterrupt) or cache.bytes_per_sequence or self._reread or self._stretched:
            cache.release(self.sequence)

    def next(self, history: Seq[int]) -> int:
        """The token after `history`: the prompt and the tokens so far. Raises as `Runner.forward` does."""
        if len(history) - 1 in self._reread:
            self._runner.cache.release(self.sequence)
        token, self._ahead = self._ahead, None
        if token is None:
            last = self._read(history)
            if not self._on_device:
                return self._sampler.sample(self._runner.forward([last])[0], history)
            token = self._runner.start(last, self._sampler.draw(), None)
        self._ahead = self._start_ahead(token, len(history))
        drawn = token.wait()
        if self._ahead is not None:
            self.sequence.tokens[-1] = drawn
        return drawn

    def _read(self, history: Seq[int]) -> Chunk:
        """Lets the model read all but the last chunk of what it has not seen."""
        unread, size = history[self.sequence.length :], self._runner.max_tokens
        *chunks, last = (
            Chunk(self.sequence, unread[begin : begin + size], "none", len(history))
            for begin in range(0, len(unread), size)
        )
        for chunk in chunks:
            self._runner.forward([chunk])
        return Chunk(self.sequence, last.tokens, "last", len(history))

    def _start_ahead(self, token: DrawnToken, length: int) -> DrawnToken | None:
        """Starts the step that reads `token`, unless none will be needed or the sequence cannot simply go on."""
        if length + 1 >= self._limit or length in self._reread:
            return None
        try:
            return self._runner.start(Chunk(self.sequence, [_UNKNOWN], "last", length + 1), self._sampler.draw(), token)
        except MemoryBudgetError:  # to be raised where the step is needed
            return None
