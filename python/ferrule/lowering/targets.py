"""What a plan is made for. Kernel choice depends on the chip, so the map of a model is always a map for a target."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Literal

from .. import _core
from ..errors import DeviceError

RowClass = Literal["one_row", "few_rows", "many_rows"]


@dataclass(frozen=True)
class Target:
    """A kind of processor, the largest row count of its `few_rows` class, and the kernels that exist for it.

    `activation_bits`: 16 or 8, what a CPU quantises activations to before products with quantised weights. With 8 they
    are rounded to bfloat16 before products with F16 and BF16 weights, these too, where the CPU multiplies bfloat16.
    """

    name: str
    backend: Literal["cpu", "metal"]
    few_rows: int
    kernels: frozenset[str]
    activation_bits: int = 16

    @property
    def row_classes(self) -> tuple[RowClass, ...]:
        """Those that it has kernels for, from few rows to many. Only Metal has kernels for a single one."""
        return ("one_row", "few_rows", "many_rows") if self.backend == "metal" else ("few_rows", "many_rows")

    def row_class(self, rows: int) -> RowClass:
        """The class whose plans serve so many rows."""
        if rows == 1 and self.backend == "metal":
            return "one_row"
        return "few_rows" if rows <= self.few_rows else "many_rows"

    def most_rows(self, row_class: RowClass) -> int:
        """The largest number of rows in the class."""
        return {"one_row": 1, "few_rows": self.few_rows, "many_rows": MOST_ROWS[self.backend]}[row_class]


METAL_FAMILIES = ("apple7", "apple8", "apple9", "apple10")  # M1, M2, M3 and M4, M5
FEW_ROWS = 8
# Tokens of one step; longer prompts are cut into such chunks. With more, a CPU's activations leave its caches.
MOST_ROWS = {"cpu": 256, "metal": 512}


def cpu_target(name: str | None = None, *, activation_bits: int = 16) -> Target:
    """The named CPU target, or the best one that this machine runs. Raises DeviceError for an unknown name."""
    name = name or _core.targets()[0]
    if name not in _core.all_targets():
        raise _unknown(name, _core.all_targets())
    return Target(name, "cpu", FEW_ROWS, frozenset(_core.kernels(name)), activation_bits)


def metal_target(name: str | None = None) -> Target:
    """The named Apple GPU family, by default a recent one. Raises DeviceError for an unknown name."""
    name = name or "apple9"
    if name not in METAL_FAMILIES:
        raise _unknown(name, METAL_FAMILIES)
    return Target(name, "metal", FEW_ROWS, frozenset(_core.metal_kernels()))


def _unknown(name: str, known: list[str] | tuple[str, ...]) -> DeviceError:
    near = difflib.get_close_matches(name, known, 1)
    return DeviceError(
        f"unknown target {name!r}",
        expected=" or ".join(known),
        hint=f"Did you mean {near[0]!r}?" if near else None,
    )
