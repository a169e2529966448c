"""A checkpoint's tensors as an architecture asks for them: by name and shape, none left over unnoticed."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..checkpoint.base import StoredTensor
from ..errors import CorruptFile, UnsupportedArchitecture, UnsupportedQuantization
from ..formats import FORMATS
from ..graph import Experts, Weight

Rows = range | NDArray[np.intp]
"""Which rows of a stored matrix: a range of step 1 is a view of the file, other choices are copied."""


class Weights:
    """Looks tensors up under a name prefix; all views of one checkpoint share the record of what was used.

    What is not there counts as zeros until `refuse_missing`: only a config that was read to its end tells a damaged
    file from a variant of the architecture. `untied`: the config says that the head is a tensor of its own.

    Raises CorruptFile for a tensor of another shape than is asked for, UnsupportedQuantization for a quantised one
    where its values are needed.
    """

    def __init__(self, tensors: Mapping[str, StoredTensor], *, path: str, untied: bool = False) -> None:
        self.untied = untied
        self._tensors = tensors
        self._prefix = ""
        self.path = path
        self._made: dict[tuple[Any, ...], Weight] = {}
        self._used: set[str] = set()
        self._missing: list[str] = []
        self._unread: dict[str, int] = {}  # rows of matrices of which some have been read

    def at(self, prefix: str) -> Weights:
        """The same tensors, names continued after `prefix` + "."."""
        view = Weights(self._tensors, path=self.path, untied=self.untied)
        view._made, view._used, view._missing, view._unread = self._made, self._used, self._missing, self._unread
        view._prefix = f"{self._prefix}{prefix}."
        return view

    def __contains__(self, name: str) -> bool:
        return self._prefix + name in self._tensors

    def matrix(self, name: str, n_out: int, n_in: int, *, rows: Rows | None = None, transposed: bool = False) -> Weight:
        """A matrix [n_out, n_in] in its stored format.

        `rows` takes n_out rows of a taller stored one; `transposed`: the file holds [n_in, n_out], not quantised.
        """
        stored = self._find(name)
        if stored is None:
            return self._zeros(name, n_out, n_in)
        if transposed:
            stored = self._turned(stored)
        return self._rows(stored, n_out, n_in, rows)

    def turned_matrix(self, name: str, n_in: int, n_out: int, *, rows: range) -> Weight:
        """The transposed copy [n_out, n_in] of n_in rows of a stored matrix that is not quantised."""
        part = self.matrix(name, n_in, n_out, rows=rows)
        turned = self._turned(StoredTensor(part.name, part.shape, part.format, part.data))
        return Weight(part.name, (n_out, n_in), part.format, turned.data)

    def experts(
        self,
        name: str,
        count: int,
        n_out: int,
        n_in: int,
        *,
        rows: Rows | None = None,
        transposed: bool = False,
    ) -> Experts:
        """A matrix [n_out, n_in] for each of `count` experts, from one tensor for each or one for all.

        They are called "0.<name>.weight", "1.<name>.weight" ..., or "<name>" or "<name>.weight" [count, n_out, n_in].
        `rows` and `transposed` are as in matrix.
        """
        if f"0.{name}.weight" in self:
            each = [f"{e}.{name}.weight" for e in range(count)]
            return Experts(tuple(self.matrix(e, n_out, n_in, rows=rows, transposed=transposed) for e in each))
        stored = self._find(name if name in self or f"{name}_blocks" in self else f"{name}.weight")
        if stored is None:
            return Experts((self._zeros(name, n_out, n_in),) * count)
        if len(stored.shape) != 3 or stored.shape[0] != count:
            raise self._misshapen(stored, (count, n_out, n_in))
        if transposed:
            stored = self._turned(stored)
        slices = stored.data.reshape(count, -1)
        parts = [StoredTensor(f"{stored.name}[{e}]", stored.shape[1:], stored.format, slices[e]) for e in range(count)]
        return Experts(tuple(self._rows(part, n_out, n_in, rows) for part in parts))

    def vector(self, name: str, n: int, *, rows: Rows | None = None) -> Weight:
        """A float vector [n], converted to float32; `rows` takes n values of a longer one."""
        stored = self._find(name)
        if stored is None:
            return self._zeros(name, n)
        size = int(np.prod(stored.shape))
        if (rows is None and size != n) or (rows is not None and (len(rows) != n or _end(rows) > size)):
            raise self._misshapen(stored, (n,))
        key = (stored.name, "vector", *_key(rows))
        if key not in self._made:
            values = self._decoded(stored).reshape(-1)
            values = np.ascontiguousarray(values if rows is None else values[np.asarray(rows)])
            self._made[key] = Weight(stored.name, (n,), "F32", values.view(np.uint8))
        return self._made[key]

    def optional_vector(self, name: str, n: int, *, rows: Rows | None = None) -> Weight | None:
        """The vector, or None where the checkpoint has none of that name."""
        return self.vector(name, n, rows=rows) if name in self else None

    def array(self, name: str, *shape: int) -> NDArray[np.float32]:
        """Float values of that many elements, in `shape`, for numbers that are computed from weights at load."""
        stored = self._find(name)
        if stored is None:
            return np.zeros(shape, np.float32)
        if int(np.prod(stored.shape)) != int(np.prod(shape)):
            raise self._misshapen(stored, shape)
        return self._decoded(stored).reshape(shape)

    def scalar(self, name: str) -> float:
        """The only value of a tensor."""
        return float(self.array(name, 1)[0])

    def ignore(self, *names: str) -> None:
        """Marks tensors of these names, and those below them, as used: they have no part in the forward pass."""
        for name in names:
            whole = self._prefix + name
            self._used.update(n for n in self._tensors if n == whole or n.startswith(f"{whole}."))

    def ignore_layers(self, stem: str, first: int, count: int) -> None:
        """As ignore, for the names `<stem>.<first>` and `count` - 1 more."""
        numbered = re.compile(rf"{re.escape(self._prefix + stem)}\.(\d+)\.")
        found = ((name, numbered.match(name)) for name in self._tensors)
        self._used.update(name for name, at in found if at and first <= int(at[1]) < first + count)

    def refuse_missing(self) -> None:
        """Raises CorruptFile where a tensor was asked for that is not there."""
        if self._missing:
            more = f" and {len(self._missing) - 1} more" if len(self._missing) > 1 else ""
            raise CorruptFile(f"a tensor is missing{more}", path=self.path, tensor=self._missing[0])

    def refuse_unused(self, ignored: Iterable[str]) -> None:
        """Raises for tensors and rows that nobody asked for, save tensors whose name matches an `ignored` pattern."""
        name = next((name for name, rows in self._unread.items() if rows), None)
        if name is not None:
            raise CorruptFile(
                "the config speaks of another number of rows than there are",
                path=self.path,
                tensor=name,
                found=f"{self._unread[name]} rows that it does not speak of",
            )
        unused = [n for n in self._tensors if n not in self._used and not any(re.search(p, n) for p in ignored)]
        if unused:
            raise UnsupportedArchitecture(
                f"{len(unused)} tensors that this architecture does not use: {', '.join(sorted(unused)[:4])}",
                path=self.path,
                hint="The checkpoint holds a variant of the architecture that is not implemented",
            )

    def _find(self, name: str) -> StoredTensor | None:
        name = self._prefix + name
        if f"{name}_blocks" in self._tensors:
            self._used |= {f"{name}_blocks", f"{name}_scales"}
            return _mxfp4(name, self._tensors[f"{name}_blocks"], self._tensors[f"{name}_scales"])
        if name not in self._tensors:
            self._missing.append(name)
            if len(self._missing) > len(self._tensors):  # no variant, but a number of layers that could be any
                self.refuse_missing()
            return None
        self._used.add(name)
        return self._tensors[name]

    def _zeros(self, name: str, *shape: int) -> Weight:
        return Weight(self._prefix + name, shape, "F32", np.broadcast_to(np.uint8(0), 4 * math.prod(shape)))

    def _rows(self, stored: StoredTensor, n_out: int, n_in: int, rows: Rows | None) -> Weight:
        """The matrix of those rows of a stored 2-D tensor."""
        chosen = range(n_out) if rows is None else rows
        stored_shape = (n_out if rows is None else stored.shape[0], n_in)
        if stored.shape != stored_shape or len(chosen) != n_out or _end(chosen) > stored.shape[0]:
            raise self._misshapen(stored, (n_out, n_in))
        key = (stored.name, *_key(chosen))
        if key not in self._made:
            by_row = stored.data.reshape(stored.shape[0], FORMATS[stored.format].row_bytes(n_in))
            taken = by_row[chosen.start : chosen.stop] if isinstance(chosen, range) else by_row[chosen]
            self._made[key] = Weight(stored.name, (n_out, n_in), stored.format, taken.reshape(-1), rows)
            self._unread[stored.name] = self._unread.get(stored.name, stored.shape[0]) - n_out
        return self._made[key]

    def _turned(self, stored: StoredTensor) -> StoredTensor:
        """A copy of an unquantised tensor, its last two dimensions exchanged."""
        width = FORMATS[stored.format].block_bytes
        if FORMATS[stored.format].block > 1:
            raise self._quantized(stored)
        values = stored.data.reshape(*stored.shape, width)
        turned = np.ascontiguousarray(np.swapaxes(values, -3, -2))
        return replace(stored, shape=turned.shape[:-1], data=turned.reshape(-1))

    def _decoded(self, stored: StoredTensor) -> NDArray[np.float32]:
        if FORMATS[stored.format].block > 1:
            raise self._quantized(stored)
        shape = stored.shape or (1,)
        return np.ascontiguousarray(FORMATS[stored.format].decode(stored.data, shape), np.float32)

    def _quantized(self, stored: StoredTensor) -> UnsupportedQuantization:
        return UnsupportedQuantization(
            "a tensor that must hold floats is quantised",
            path=self.path,
            tensor=stored.name,
            expected="F32, F16 or BF16",
            found=stored.format,
        )

    def _misshapen(self, stored: StoredTensor, expected: tuple[int, ...]) -> CorruptFile:
        return CorruptFile(
            "a tensor's shape contradicts the config",
            path=self.path,
            tensor=stored.name,
            expected=str(list(expected)),
            found=str(list(stored.shape)),
        )


def _end(rows: Rows) -> int:
    """Behind the last of the rows."""
    return rows.stop if isinstance(rows, range) else int(rows.max(initial=-1)) + 1


def _key(rows: Rows | None) -> tuple[Any, ...]:
    if isinstance(rows, range):
        return (rows.start, rows.stop)
    return () if rows is None else (rows.tobytes(),)


def _mxfp4(name: str, blocks: StoredTensor, scales: StoredTensor) -> StoredTensor:
    """OpenAI's pair of tensors as blocks of format MXFP4.

    Stored are codes [..., blocks, 16], values 2i and 2i + 1 in the low and high half of byte i, and exponents
    [..., blocks]; a block of the format has the exponent first, then values i and i + 16 in byte i.
    """
    pairs = blocks.data.reshape(-1, 16)
    codes = np.stack([pairs & 15, pairs >> 4], axis=-1).reshape(-1, 32)
    packed = np.empty((len(pairs), 17), np.uint8)
    packed[:, 0] = scales.data.reshape(-1)
    packed[:, 1:] = codes[:, :16] | codes[:, 16:] << 4
    shape = (*blocks.shape[:-2], blocks.shape[-2] * 32)
    return StoredTensor(name, shape, "MXFP4", packed.reshape(-1))
