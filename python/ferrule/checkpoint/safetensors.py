"""Reads Hugging Face directories: config.json, generation_config.json and safetensors weights, whole or sharded.

A safetensors file is a length (u64, little-endian), a JSON header of that length (name -> dtype, shape, data_offsets),
and the data, which the tensors cover without gap or overlap. Nothing in it is trusted: all of it is checked before use.
Source: the format description of the safetensors project.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from struct import Struct
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from ..errors import CorruptFile, ModelNotFound, UnsupportedQuantization
from .base import Checkpoint, StoredTensor
from .files import map_file, refuse_foreign

_ITEM_BYTES = {"F32": 4, "F16": 2, "BF16": 2}
_MXFP4_PARTS = ("_blocks", "_scales")  # names of the U8 tensors that hold codes and exponents of one MXFP4 tensor
_HEADER_LENGTH = Struct("<Q")
_MAX_HEADER = 100_000_000  # the format's own limit
_MAX_DIMENSIONS = 8
_TRUNCATED = "The file is truncated or damaged: download it again"
_SINGLE, _INDEX = "model.safetensors", "model.safetensors.index.json"


def open_safetensors(directory: Path) -> Checkpoint:
    """The checkpoint in a Hugging Face directory.

    Raises ModelNotFound for missing files, CorruptFile for damaged ones, UnsupportedQuantization for a checkpoint
    quantised otherwise than by MXFP4 or a dtype other than F32, F16 and BF16.
    """
    weights = _weights_file(directory)
    config_path = directory / "config.json"
    if not config_path.is_file():
        raise ModelNotFound(
            "config.json is missing", path=directory, hint="It belongs beside the weights: download it too"
        )
    config = read_json(config_path)
    _refuse_quantised(config, config_path)
    generation_path = directory / "generation_config.json"
    generation = read_json(generation_path) if generation_path.is_file() else {}
    tensors = _read_shards(weights) if weights.suffix == ".json" else read_safetensors(weights)
    return Checkpoint(directory, "safetensors", config, tensors, generation_config=generation)


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; CorruptFile where there is none."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise ModelNotFound(f"the file cannot be read: {error.strerror}", path=path) from error
    return _parse_object(text, path, path.name)


def read_safetensors(path: Path) -> dict[str, StoredTensor]:
    """The tensors of one file, by name; their data stay in the mapped file.

    Raises CorruptFile naming tensor and byte offset, UnsupportedQuantization naming tensor and dtype.
    """
    buffer = map_file(path)
    length = int(_HEADER_LENGTH.unpack_from(buffer)[0]) if len(buffer) >= 8 else 0
    limit = min(_MAX_HEADER, len(buffer) - 8)
    if not 2 <= length <= limit:
        refuse_foreign(path, buffer, expected="a safetensors file")
        raise CorruptFile(
            "the header length at byte 0", path=path, expected=f"2 to {limit}", found=str(length), hint=_TRUNCATED
        )
    header = _parse_object(buffer[8 : 8 + length], path, "the header")
    header.pop("__metadata__", None)
    data_start, data_size = 8 + length, len(buffer) - 8 - length

    extents = {name: _extent(name, entry, data_size, path) for name, entry in header.items()}
    end = 0
    for name, (begin, stop) in sorted(extents.items(), key=lambda item: item[1]):
        if begin != end:
            problem = "overlap those before" if begin < end else "leave a gap before them"
            raise CorruptFile(f"the data at byte {data_start + begin} {problem}", path=path, tensor=name)
        end = stop
    if end != data_size:
        raise CorruptFile(f"{data_size - end} bytes at byte {data_start + end} belong to no tensor", path=path)
    return {
        name: StoredTensor(
            name,
            tuple(header[name]["shape"]),
            header[name]["dtype"],
            _aligned(np.frombuffer(buffer, np.uint8, stop - begin, data_start + begin), header[name]["dtype"]),
        )
        for name, (begin, stop) in extents.items()
    }


def _extent(name: str, entry: Any, data_size: int, path: Path) -> tuple[int, int]:
    """Where a tensor's data begin and end in the data section, checked against its shape and dtype."""
    fields: dict[str, Any] = entry if isinstance(entry, dict) else {}
    dtype, shape, offsets = fields.get("dtype"), fields.get("shape"), fields.get("data_offsets")
    if not isinstance(dtype, str) or not _are_counts(shape) or not _are_counts(offsets) or len(offsets) != 2:
        raise CorruptFile(
            "a header entry",
            path=path,
            tensor=name,
            expected="dtype, shape and two data_offsets",
            found=repr(entry)[:80],
        )
    is_mxfp4_part = dtype == "U8" and name.endswith(_MXFP4_PARTS)
    if dtype not in _ITEM_BYTES and not is_mxfp4_part:
        raise UnsupportedQuantization(
            "unsupported dtype", path=path, tensor=name, expected=" or ".join(_ITEM_BYTES), found=dtype
        )
    begin, end = offsets
    if not begin <= end <= data_size:
        raise CorruptFile(
            f"data_offsets {begin} to {end} lie outside the {data_size} bytes of data",
            path=path,
            tensor=name,
            hint=_TRUNCATED,
        )
    n_bytes = math.prod(shape) * _ITEM_BYTES.get(dtype, 1) if len(shape) <= _MAX_DIMENSIONS else -1
    if n_bytes != end - begin:
        raise CorruptFile(
            f"shape {shape} of {dtype} does not fill data_offsets {begin} to {end}",
            path=path,
            tensor=name,
            expected=f"{end - begin} bytes",
            found=str(n_bytes) if n_bytes >= 0 else f"{len(shape)} dimensions",
        )
    return begin, end


def _are_counts(values: Any) -> TypeGuard[list[int]]:
    return isinstance(values, list) and all(type(value) is int and value >= 0 for value in values)


def _aligned(data: NDArray[np.uint8], dtype: str) -> NDArray[np.uint8]:
    """The data where their elements are aligned in memory; a header of odd length makes a copy necessary."""
    return data if data.ctypes.data % _ITEM_BYTES.get(dtype, 1) == 0 else data.copy()


def _parse_object(text: bytes, path: Path, what: str) -> dict[str, Any]:
    try:
        value = json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise CorruptFile(f"{what} is not valid JSON: {error}", path=path, hint=_TRUNCATED) from None
    if not isinstance(value, dict):
        raise CorruptFile(what, path=path, expected="a JSON object", found=type(value).__name__)
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError("a key appears twice")
    return values


def _refuse_quantised(config: Mapping[str, Any], path: Path) -> None:
    for section in (config, config.get("text_config")):
        quantised = section.get("quantization_config") if isinstance(section, Mapping) else None
        if quantised is None:
            continue
        method = quantised.get("quant_method") if isinstance(quantised, Mapping) else None
        if method == "mxfp4":
            continue
        raise UnsupportedQuantization(
            f"the checkpoint is quantised with {method or 'an unnamed method'}",
            path=path,
            hint="Use the unquantised checkpoint, or a GGUF file of the model",
        )


def _weights_file(directory: Path) -> Path:
    """The one safetensors file of a checkpoint, or the index of its shards."""
    for name in (_SINGLE, _INDEX):
        if (directory / name).is_file():
            return directory / name
    names = sorted(path.name for path in directory.iterdir())
    hint = f"Expected {_SINGLE}, or {_INDEX} and its shards"
    if "adapter_model.safetensors" in names:
        hint = "The directory holds a LoRA adapter: give its base model, and it as adapter"
    elif any(name.startswith("pytorch_model") for name in names):
        hint = "Convert pytorch_model.bin to safetensors: load it with transformers and call save_pretrained"
    raise ModelNotFound("no safetensors weights in this directory", path=directory, hint=hint)


def _read_shards(index: Path) -> dict[str, StoredTensor]:
    weight_map = read_json(index).get("weight_map")
    if not isinstance(weight_map, dict) or not all(isinstance(shard, str) for shard in weight_map.values()):
        raise CorruptFile("weight_map", path=index, expected="tensor names to file names")
    tensors: dict[str, StoredTensor] = {}
    for shard in sorted(set(weight_map.values())):
        path = index.parent / shard
        if path.parent != index.parent:
            raise CorruptFile("weight_map names a file outside the directory", path=index, found=shard)
        if not path.is_file():
            raise ModelNotFound(f"the shard {shard} is missing", path=index, hint="Download it into the directory")
        for name, tensor in read_safetensors(path).items():
            if weight_map.get(name) != shard:
                raise CorruptFile(f"the index places it in {weight_map.get(name)}", path=path, tensor=name)
            tensors[name] = tensor
    lost = next((name for name in weight_map if name not in tensors), None)
    if lost is not None:
        raise CorruptFile("the tensor is not in its shard", path=index.parent / weight_map[lost], tensor=lost)
    return tensors
