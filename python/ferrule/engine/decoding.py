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


class Decoder:
    """The tokens after a prompt, one by one. `limit` is the length at which the text ends, whatever comes."""

    def __init__(self, runner: Runner, sampler: Sampler, *, limit: int) -> None:
        self.sequence = Sequence()
        self._runner = runner
        self._sampler = sampler
        self._limit = limit
        self._reread = runner.graph.reread_lengths
        self._on_device = runner.draws_tokens and not sampler.needs_logits
        self._ahead: DrawnToken | None = None  # the next token, if the step that draws it was started

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
        return token.wait()

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
            return self._runner.start(Chunk(self.sequence, [0], "last", length + 1), self._sampler.draw(), token)
        except MemoryBudgetError:  # to be raised where the step is needed
            return None
