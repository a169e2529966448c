"""Sequences of a step, for kernels that carry a state from token to token."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Sequences:
    """(position_begin, n_rows) of each sequence; their slots are in an order of their own, with unused ones between."""

    spans: tuple[tuple[int, int], ...]

    def __str__(self) -> str:
        return "+".join(f"{n_rows}@{begin}" for begin, n_rows in self.spans)

    @property
    def rows(self) -> int:
        return sum(n_rows for _, n_rows in self.spans)

    @property
    def slots(self) -> NDArray[np.int32]:
        """[sequences]"""
        return (2 * np.arange(len(self.spans), dtype=np.int32)[::-1] + 1).astype(np.int32)

    def inputs(self) -> dict[str, NDArray[np.generic]]:
        """The operands `spans` and `state_slots`."""
        rows = np.cumsum([0, *(n_rows for _, n_rows in self.spans)])
        spans = [(row, n_rows, begin, 0) for row, (begin, n_rows) in zip(rows[:-1], self.spans, strict=True)]
        return {"spans": np.array(spans, np.uint32), "state_slots": self.slots}

    def slices(self) -> list[slice]:
        """The rows of each sequence."""
        ends = np.cumsum([n_rows for _, n_rows in self.spans])
        return [slice(end - n_rows, end) for end, (_, n_rows) in zip(ends, self.spans, strict=True)]

    def states(self, *shape: int, rng: np.random.Generator) -> NDArray[np.float32]:
        """float32 [slots, *shape]: random where a sequence goes on, NaN where one begins or no one is."""
        states = np.full((2 * len(self.spans) + 1, *shape), np.nan, np.float32)
        for (begin, _), slot in zip(self.spans, self.slots, strict=True):
            if begin > 0:
                states[slot] = rng.standard_normal(shape)
        return states

    def before(self, states: NDArray[np.float32]) -> list[NDArray[np.float64]]:
        """Each sequence's state before the step."""
        return [
            states[slot].astype(np.float64) if begin > 0 else np.zeros(states.shape[1:])
            for (begin, _), slot in zip(self.spans, self.slots, strict=True)
        ]

    def check_others(self, before: NDArray[np.float32], after: NDArray[np.float32]) -> None:
        """States of nobody's must stay as they are."""
        others = np.setdiff1d(np.arange(len(before)), self.slots)
        np.testing.assert_array_equal(after[others], before[others])


CASES = [
    Sequences(((0, 1),)),
    Sequences(((5, 1),)),
    Sequences(((0, 9),)),
    Sequences(((0, 2), (7, 1), (3, 6), (0, 1))),
    Sequences(((4, 33), (0, 2))),
]
