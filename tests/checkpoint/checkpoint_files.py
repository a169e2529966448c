"""Small checkpoint files for the tests of this directory: well-formed ones by other libraries, damaged ones by hand."""

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import safetensors.numpy

# A GGUF of arch "llama" with one layer, sizes like a model's in miniature.
LLAMA: dict[str, Any] = {
    "llama.block_count": 1,
    "llama.context_length": 128,
    "llama.embedding_length": 64,
    "llama.feed_forward_length": 96,
    "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 2,
    "llama.attention.layer_norm_rms_epsilon": 1e-5,
    "llama.rope.freq_base": 10000.0,
}
CONFIG = {"model_type": "llama", "hidden_size": 64}


def write_gguf(
    path: Path,
    metadata: Mapping[str, Any] = LLAMA,
    tensors: Mapping[str, tuple[np.ndarray, gguf.GGMLQuantizationType | None]] | None = None,
    *,
    architecture: str = "llama",
    **options: Any,
) -> Path:
    """Writes by the gguf package: integers as uint32, floats as float32. A tensor is (values or blocks, block type)."""
    writer = gguf.GGUFWriter(path, architecture, **options)
    for key, value in metadata.items():
        match value:
            case bool():
                writer.add_bool(key, value)
            case int():
                writer.add_uint32(key, value)
            case float():
                writer.add_float32(key, value)
            case str():
                writer.add_string(key, value)
            case _:
                writer.add_array(key, value)
    for name, (data, kind) in (tensors or {}).items():
        writer.add_tensor(name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def string(text: str | bytes) -> bytes:
    """A GGUF string."""
    data = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(data)) + data


def raw_gguf(
    keys: Sequence[bytes] = (),
    tensors: Sequence[bytes] = (),
    data: bytes = b"",
    *,
    version: int = 3,
    n_keys: int | None = None,
    n_tensors: int | None = None,
    alignment: int = 32,
) -> bytes:
    """A GGUF file put together by hand, so that any field can be wrong."""
    counts = struct.pack(
        "<QQ", len(tensors) if n_tensors is None else n_tensors, len(keys) if n_keys is None else n_keys
    )
    header = b"GGUF" + struct.pack("<I", version) + counts + b"".join(keys) + b"".join(tensors)
    return header + bytes(-len(header) % alignment) + data


def raw_key(key: str | bytes, kind: int, payload: bytes) -> bytes:
    """A metadata entry."""
    return string(key) + struct.pack("<I", kind) + payload


def raw_tensor(
    name: str | bytes, dimensions: Sequence[int], kind: int = 0, offset: int = 0, *, n: int | None = None
) -> bytes:
    """A tensor's header; dimensions fastest first, kind 0 is F32."""
    count = len(dimensions) if n is None else n
    return string(name) + struct.pack(f"<I{len(dimensions)}QIQ", count, *dimensions, kind, offset)


def write_directory(directory: Path, shards: Mapping[str, Mapping[str, np.ndarray]], config: Any = CONFIG) -> Path:
    """A Hugging Face directory: file name -> tensors, an index where there are several files."""
    directory.mkdir(exist_ok=True)
    (directory / "config.json").write_text(json.dumps(config))
    for file, tensors in shards.items():
        safetensors.numpy.save_file(dict(tensors), directory / file)
    if len(shards) > 1:
        weight_map = {name: file for file, tensors in shards.items() for name in tensors}
        (directory / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return directory


def raw_safetensors(header: Any, data: bytes = b"", *, length: int | None = None) -> bytes:
    """A safetensors file put together by hand; `header` is bytes or a JSON value."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data
