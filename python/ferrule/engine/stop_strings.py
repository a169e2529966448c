"""Ends a stream of text before a stop string, of which no part is ever shown."""

from __future__ import annotations

from collections.abc import Sequence


class StopStrings:
    """Passes text through until one of `stops` is complete; `found` tells that it was.

    Text that may still grow into a stop string is held back. Among several stop strings the one that is complete first
    counts, and of those ending together the longest, so the result does not depend on how the text is cut into pieces.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self.found = False
        self._stops = tuple(stops)
        self._longest = max(map(len, self._stops), default=0)
        self._held = ""

    def feed(self, text: str) -> str:
        """The text that `text` makes safe to show. Nothing follows once a stop string was found."""
        if self.found:
            return ""
        text = self._held + text
        matches = [(start + len(stop), start) for stop in self._stops if (start := text.find(stop)) >= 0]
        if matches:
            self.found = True
            self._held = ""
            return text[: min(matches)[1]]
        kept = self._growing(text)
        self._held = text[len(text) - kept :]
        return text[: len(text) - kept]

    def flush(self) -> str:
        """What is held back; call once, when the text has ended."""
        held, self._held = self._held, ""
        return held

    def _growing(self, text: str) -> int:
        """Length of the longest end of `text` that begins a stop string."""
        for length in range(min(self._longest - 1, len(text)), 0, -1):
            if any(stop.startswith(text[-length:]) for stop in self._stops):
                return length
        return 0
