"""A checkpoint's tensors as an architecture asks for them: by name and shape, none left over unnoticed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import numpy as np

from ..checkpoint.base import StoredTensor
from ..errors import CorruptFile, UnsupportedArchitecture, UnsupportedQuantization
from ..formats import FORMATS
from ..graph import Weight


class Weights:
    """Looks tensors up under a name prefix; all views of one checkpoint share the record of what was used."""

    def __init__(self, tensors: Mapping[str, StoredTensor], *, path: str) -> None:
        self._tensors = tensors
        self._prefix = ""
        self._path = path
        self._made: dict[tuple[str, int, int], Weight] = {}
        self._used: set[str] = set()

    def at(self, prefix: str) -> Weights:
        """The same tensors, names continued after `prefix` + "."."""
        view = Weights(self._tensors, path=self._path)
        view._made, view._used = self._made, self._used
        view._prefix = f"{self._prefix}{prefix}."
        return view

    def __contains__(self, name: str) -> bool:
        return self._prefix + name in self._tensors

    def matrix(self, name: str, n_out: int, n_in: int, *, rows: tuple[int, int] | None = None) -> Weight:
        """A matrix [n_out, n_in] in its stored format; `rows` takes a range of a taller stored one."""
        stored = self._find(name)
        first, last = rows or (0, n_out)
        stored_shape = (stored.shape[0] if rows else n_out, n_in)
        if stored.shape != stored_shape or last > stored.shape[0] or last - first != n_out:
            raise self._misshapen(stored, (n_out, n_in))
        key = (stored.name, first, last)
        if key not in self._made:
            row_bytes = FORMATS[stored.format].row_bytes(n_in)
            data = stored.data[first * row_bytes : last * row_bytes]
            self._made[key] = Weight(stored.name, (n_out, n_in), stored.format, data)
        return self._made[key]

    def vector(self, name: str, n: int) -> Weight:
        """A float vector [n], converted to float32."""
        stored = self._find(name)
        if int(np.prod(stored.shape)) != n:
            raise self._misshapen(stored, (n,))
        key = (stored.name, -1, -1)
        if key not in self._made:
            if FORMATS[stored.format].block > 1:
                raise UnsupportedQuantization(
                    "a vector is quantised", path=self._path, tensor=stored.name, expected="F32, F16 or BF16", found=stored.format
                )
            values = np.ascontiguousarray(FORMATS[stored.format].decode(stored.data, (n,)), np.float32)
            self._made[key] = Weight(stored.name, (n,), "F32", values.view(np.uint8))
        return self._made[key]

    def optional_vector(self, name: str, n: int) -> Weight | None:
        """The vector, or None where the checkpoint has none of that name."""
        return self.vector(name, n) if name in self else None

    def refuse_unused(self, ignored: Iterable[str]) -> None:
        """Raises for tensors that nobody asked for, save those whose name matches one of the `ignored` patterns."""
        unused = [n for n in self._tensors if n not in self._used and not any(re.search(p, n) for p in ignored)]
        if unused:
            raise UnsupportedArchitecture(
                f"{len(unused)} tensors that this architecture does not use: {', '.join(sorted(unused)[:4])}",
                path=self._path,
                hint="The checkpoint holds a variant of the architecture that is not implemented",
            )

    def _find(self, name: str) -> StoredTensor:
        name = self._prefix + name
        if name not in self._tensors:
            raise CorruptFile("a tensor is missing", path=self._path, tensor=name)
        self._used.add(name)
        return self._tensors[name]

    def _misshapen(self, stored: StoredTensor, expected: tuple[int, ...]) -> CorruptFile:
        return CorruptFile(
            "a tensor's shape contradicts the config",
            path=self._path,
            tensor=stored.name,
            expected=str(list(expected)),
            found=str(list(stored.shape)),
        )
