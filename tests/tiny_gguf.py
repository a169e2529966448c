"""GGUF files of the tiny models, byte for byte as llama.cpp's converter writes them, and quantised ones.

`tests/data/gguf/<variant>.npz` holds the converter's header (metadata and tensor list) and, for every tensor of the
file, where its rows stand in the checkpoint that `tiny_models` rebuilds (see `tests/oracle/make_gguf.py`). The golden
of the variant is valid for the file, and for its F16 and BF16 versions, in which the weights are exact.
"""

import hashlib
import json
from pathlib import Path

import gguf
import numpy as np

import tiny_models

DATA = Path(__file__).parent / "data" / "gguf"
ALIGNMENT = 32

UNTOLD = {
    "gemma2_qpas": "query_pre_attn_scalar",
    "gemma3_qpas": "query_pre_attn_scalar",
    "gpt_oss_limit": "swiglu_limit",
    "gpt_oss_mxfp4": "truncate among the RoPE parameters",
    "gpt_oss_trunc": "truncate among the RoPE parameters",
    "llama4_chunk": "attention_chunk_size",
    "llama_dynamic": "dynamic scaling",
    "mistral_swa": "sliding_window",
    "phi3_5_moe_longrope": "short_mscale and long_mscale",
    "qwen2_swa": "sliding_window",
    "starcoder2_swa": "sliding_window",
}
"""Variants of which converters write no such fact, so that the file stands for another model."""


def variants() -> list[str]:
    """Names of all variants of which there is a GGUF file."""
    return sorted(path.stem for path in DATA.glob("*.npz"))


def build(variant: str, path: Path) -> Path:
    """Writes the float32 GGUF file of `variant` to `path` and returns it."""
    with np.load(DATA / f"{variant}.npz") as stored:
        arrays = dict(stored)
    weights = {name: np.atleast_1d(array) for name, (_, array) in tiny_models.weights(variant, "f32")}
    content = bytearray(arrays["header"].tobytes())
    for recipe in json.loads(arrays["tensors"].tobytes()):
        data = tensor(recipe, weights, arrays).astype("<f4").tobytes()
        content += data + b"\0" * (-len(data) % ALIGNMENT)
    if hashlib.sha256(content).digest() != arrays["sha256"].tobytes():
        raise ValueError(f"{variant}: the file is not the one the converter wrote; run tests/oracle/make_gguf.py")
    path.write_bytes(content)
    return path


def tensor(recipe: dict, weights: dict[str, np.ndarray], arrays: dict[str, np.ndarray]) -> np.ndarray:
    """The values of one tensor: an array stored as it is, or rows of the checkpoint's tensors.

    `from` lists (folded) tensor names; `transposed` swaps their last two axes, `plus_one` adds 1, and `rows` names the
    array of indices into all their rows, one after another; without it all rows are taken in order.
    """
    if "stored" in recipe:
        return arrays[recipe["stored"]].astype(np.float32)
    sources = [weights[name] for pattern in recipe["from"] for name in tiny_models.expand(pattern)]
    if recipe.get("transposed"):
        sources = [source.swapaxes(-1, -2) for source in sources]
    rows = np.concatenate([source.reshape(-1, source.shape[-1]) for source in sources])
    if "rows" in recipe:
        rows = rows[arrays[recipe["rows"]]]
    return rows + np.float32(1) if recipe.get("plus_one") else rows


def quantised(source: Path, path: Path, kind: gguf.GGMLQuantizationType) -> Path:
    """Writes a copy of a float32 GGUF file with its matrices in the format `kind`, and returns `path`.

    What is no matrix, a norm or router, or has rows that are no multiple of the format's block, stays float32.
    """
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(path, reader.fields["general.architecture"].contents())
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        writer.add_key_value(name, field.contents(), field.types[0], field.types[1] if len(field.types) > 1 else None)
    block = gguf.GGML_QUANT_SIZES[kind][0]
    for entry in reader.tensors:
        keep = entry.data.ndim < 2 or entry.data.shape[-1] % block or "norm" in entry.name or "gate_inp" in entry.name
        if keep or not entry.name.endswith(".weight"):
            writer.add_tensor(entry.name, entry.data)
        else:
            writer.add_tensor(entry.name, gguf.quantize(entry.data, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
