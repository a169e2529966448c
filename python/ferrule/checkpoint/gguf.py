"""Reads GGUF files, versions 2 and 3, little-endian, one file or a split set.

Layout: magic, version, tensor count, metadata count; metadata (key, type, value); per tensor name, dimensions (fastest
first), type and offset; padding; tensor data. Nothing in the file is trusted: every count, length and offset is checked
against the size of the file before it is used. Source: the GGUF specification of the ggml project.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from pathlib import Path
from struct import Struct
from typing import Any

import numpy as np

from .. import _core
from ..errors import CorruptFile, ModelNotFound, UnsupportedQuantization
from ..formats import GGML_TYPES
from . import gguf_names
from .base import Checkpoint, StoredTensor
from .files import map_file, refuse_foreign

_TRUNCATED = "The file is truncated or damaged: download it again"
_MAX_ARRAY = 1 << 24  # far above any vocabulary: what a damaged count may cost at most
_MAX_DIMENSIONS = 4
_DEFAULT_ALIGNMENT = 32

_U32, _U64 = Struct("<I"), Struct("<Q")
_BOOL, _STRING, _ARRAY = 7, 8, 9
_NUMBERS: dict[int, np.dtype[Any]] = {
    0: np.dtype("<u1"), 1: np.dtype("<i1"), 2: np.dtype("<u2"), 3: np.dtype("<i2"), 4: np.dtype("<u4"),
    5: np.dtype("<i4"), 6: np.dtype("<f4"), 7: np.dtype("<u1"), 10: np.dtype("<u8"), 11: np.dtype("<i8"),
    12: np.dtype("<f8"),
}  # fmt: skip
_SPLIT_NAME = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")


@dataclass(frozen=True, eq=False)
class GgufFile:
    """One file's metadata (arrays as lists) and tensors under their GGUF names."""

    metadata: dict[str, Any]
    tensors: dict[str, StoredTensor]


def open_gguf(path: Path) -> Checkpoint:
    """The checkpoint that a GGUF file, or any file of a split set, belongs to.

    Raises CorruptFile, UnsupportedQuantization, or ModelNotFound for a missing file of a set.
    """
    parts = split_set(path)
    files = [read_gguf(part) for part in parts]
    metadata = files[0].metadata
    count = metadata.get("split.count", 1)
    if len(parts) > 1 and count != len(parts):
        raise CorruptFile("split.count", path=parts[0], expected=str(len(parts)), found=repr(count))
    if len(parts) == 1 and count not in (0, 1):
        raise ModelNotFound(
            f"this file is one of a set of {count} but not named as such",
            path=path,
            hint=f"Name the files <name>-00001-of-{count:05}.gguf and so on" if isinstance(count, int) else None,
        )

    if metadata.get("general.type") == "adapter":
        raise ModelNotFound("the file holds a LoRA adapter", path=path, hint="Give its base model, and it as adapter")
    architecture = metadata.get("general.architecture")
    if not isinstance(architecture, str):
        raise CorruptFile("metadata key general.architecture", path=path, expected="a string", found=repr(architecture))
    tensors: dict[str, StoredTensor] = {}
    for part, file in zip(parts, files, strict=True):
        for name, tensor in file.tensors.items():
            hf_name = gguf_names.hf_tensor_name(architecture, name)
            if hf_name in tensors:
                raise CorruptFile("the tensor is stored twice", path=part, tensor=name)
            tensors[hf_name] = replace(tensor, name=hf_name)
    config = gguf_names.hf_config(architecture, metadata, tensors, path=parts[0])
    return Checkpoint(parts[0], "gguf", config, tensors, metadata)


def split_set(path: Path) -> list[Path]:
    """All files of the set that `path` is a member of, in order; [path] for a file of its own."""
    name = _SPLIT_NAME.fullmatch(path.name)
    if not name:
        return [path]
    count = int(name["count"])
    parts = [path.with_name(f"{name['stem']}-{i:05}-of-{count:05}.gguf") for i in range(1, count + 1)]
    missing = next((part for part in parts if not part.is_file()), None)
    if missing is not None or path not in parts:
        raise ModelNotFound(
            f"a file of a set of {count} is missing: {missing.name if missing else path.name}",
            path=path,
            hint="Put all files of the set into one directory",
        )
    return parts


def read_gguf(path: Path) -> GgufFile:
    """Reads one file; tensor data stays in the mapped file.

    Raises CorruptFile naming key or tensor and byte offset, UnsupportedQuantization naming tensor and type.
    """
    reader = _Reader(path)
    reader.magic_and_version()
    n_tensors, n_keys = reader.u64("the tensor count"), reader.u64("the metadata count")
    metadata: dict[str, Any] = {}
    for i in range(n_keys):
        start = reader.position
        key = reader.string(f"metadata key {i} of {n_keys}")
        if key in metadata:
            raise reader.corrupt(f"metadata key {key} appears twice", start)
        metadata[key] = reader.value(f"metadata key {key}")
    return GgufFile(metadata, _tensors(reader, n_tensors, _alignment(metadata, path)))


class _Reader:
    """Takes little-endian values from a mapped file one after the other, never from beyond its end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.buffer = map_file(path)
        self.size = len(self.buffer)
        self.position = 0

    def corrupt(self, message: str, offset: int, **facts: str) -> CorruptFile:
        return CorruptFile(f"{message} at byte {offset}", path=self.path, **facts)

    def advance(self, n_bytes: int, what: str) -> int:
        """Steps over `n_bytes` and returns where they begin."""
        start = self.position
        if n_bytes > self.size - start:
            raise self.corrupt(
                f"{what} runs past the end of the file",
                start,
                expected=f"{n_bytes} bytes",
                found=f"{self.size - start}",
                hint=_TRUNCATED,
            )
        self.position += n_bytes
        return start

    def magic_and_version(self) -> None:
        if self.buffer[:4] != b"GGUF":
            refuse_foreign(self.path, self.buffer, expected="a GGUF file")
            raise self.corrupt("this is no GGUF file: its magic", 0, expected="b'GGUF'", found=repr(self.buffer[:4]))
        start = self.advance(8, "the header")
        version = int(_U32.unpack_from(self.buffer, start + 4)[0])
        if version not in (2, 3):
            big_endian = version & 0xFFFF == 0
            raise self.corrupt(
                "GGUF version",
                start + 4,
                expected="2 or 3, little-endian",
                found="big-endian" if big_endian else str(version),
                hint="Convert the model again, to the current little-endian GGUF",
            )

    def u32(self, what: str) -> int:
        return int(_U32.unpack_from(self.buffer, self.advance(4, what))[0])

    def u64(self, what: str) -> int:
        return int(_U64.unpack_from(self.buffer, self.advance(8, what))[0])

    def string(self, what: str) -> str:
        return self.strings(1, what)[0]

    def strings(self, count: int, what: str) -> list[str]:
        """`count` strings, each a length (u64) and UTF-8 bytes."""
        first = self.position
        raw, self.position = _core.length_prefixed(np.frombuffer(self.buffer, np.uint8), first, count)
        if len(raw) < count:
            entry = f"string {len(raw)} of {what}" if count > 1 else what
            raise self.corrupt(f"{entry} runs past the end of the file", self.position, hint=_TRUNCATED)
        try:
            return list(map(bytes.decode, raw))
        except UnicodeDecodeError as error:
            raise self.corrupt(f"{what} is not UTF-8 ({error.reason})", first) from None

    def value(self, what: str) -> Any:
        """A metadata value: its type (u32) and then itself."""
        start = self.position
        kind = self.u32(f"the type of {what}")
        if kind == _ARRAY:
            start = self.position
            kind, count = self.u32(f"the element type of {what}"), self.u64(f"the length of {what}")
            if count > _MAX_ARRAY:
                raise self.corrupt(
                    f"the array of {what}", start, expected=f"up to {_MAX_ARRAY} elements", found=str(count)
                )
        elif kind == _STRING:
            return self.string(what)
        else:
            return self.numbers(kind, 1, what, start)[0]
        return self.strings(count, what) if kind == _STRING else self.numbers(kind, count, what, start)

    def numbers(self, kind: int, count: int, what: str, type_offset: int) -> list[Any]:
        dtype = _NUMBERS.get(kind)
        if dtype is None:
            raise self.corrupt(
                f"the value type of {what}", type_offset, expected="0 to 12, no nested array", found=str(kind)
            )
        start = self.advance(count * dtype.itemsize, what)
        values = np.frombuffer(self.buffer, dtype, count, start)
        listed: list[Any] = (values != 0 if kind == _BOOL else values).tolist()
        return listed


def _alignment(metadata: dict[str, Any], path: Path) -> int:
    """Tensor data begin at multiples of this; at least 8, as the specification asks."""
    alignment = metadata.get("general.alignment", _DEFAULT_ALIGNMENT)
    if not isinstance(alignment, int) or alignment < 8 or alignment & (alignment - 1):
        raise CorruptFile("general.alignment", path=path, expected="a power of two from 8 up", found=repr(alignment))
    return alignment


def _tensors(reader: _Reader, count: int, alignment: int) -> dict[str, StoredTensor]:
    infos: list[tuple[int, int, str, tuple[int, ...], str]] = []  # offset, bytes, name, shape, format
    names: set[str] = set()
    for i in range(count):
        start = reader.position
        name = reader.string(f"the name of tensor {i} of {count}")
        if name in names:
            raise reader.corrupt("a second tensor of that name", start, tensor=name)
        names.add(name)
        infos.append(_tensor_info(reader, name, alignment))

    data_start = reader.position + -reader.position % alignment
    tensors: dict[str, StoredTensor] = {}
    end, previous = 0, ""
    for offset, n_bytes, name, shape, fmt in sorted(infos):
        if offset < end:
            raise reader.corrupt(f"the data overlap those of {previous}", data_start + offset, tensor=name)
        end, previous = offset + n_bytes, name
        if data_start + end > reader.size:
            raise reader.corrupt(
                "the data run past the end of the file",
                data_start + offset,
                tensor=name,
                expected=f"{n_bytes} bytes",
                found=f"{max(reader.size - data_start - offset, 0)}",
                hint=_TRUNCATED,
            )
        tensors[name] = StoredTensor(
            name, shape, fmt, np.frombuffer(reader.buffer, np.uint8, n_bytes, data_start + offset)
        )
    return {name: tensors[name] for _, _, name, _, _ in infos}


def _tensor_info(reader: _Reader, name: str, alignment: int) -> tuple[int, int, str, tuple[int, ...], str]:
    start = reader.position
    n_dimensions = reader.u32(f"the header of tensor {name}")
    if not 1 <= n_dimensions <= _MAX_DIMENSIONS:
        raise reader.corrupt(
            "number of dimensions", start, tensor=name, expected=f"1 to {_MAX_DIMENSIONS}", found=str(n_dimensions)
        )
    dimensions = [reader.u64(f"the header of tensor {name}") for _ in range(n_dimensions)]
    kind, offset = reader.u32(f"the header of tensor {name}"), reader.u64(f"the header of tensor {name}")
    fmt = GGML_TYPES.get(kind)
    if fmt is None:
        raise UnsupportedQuantization(
            f"GGML type {kind} is not supported",
            path=reader.path,
            tensor=name,
            hint="Supported: " + ", ".join(known.name for known in GGML_TYPES.values()),
        )
    elements = math.prod(dimensions)
    if elements == 0 or dimensions[0] % fmt.block:
        raise reader.corrupt(
            "dimensions",
            start,
            tensor=name,
            expected=f"rows of a multiple of {fmt.block} elements",
            found=str(dimensions),
        )
    if offset % alignment:
        raise reader.corrupt(
            "the data offset", start, tensor=name, expected=f"a multiple of {alignment}", found=str(offset)
        )
    return offset, elements // fmt.block * fmt.block_bytes, name, tuple(reversed(dimensions)), fmt.name
