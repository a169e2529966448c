"""Makes tests/data/gguf: how llama.cpp's own converter lays out the tiny checkpoints.

    PYTHONPATH=tests:LLAMA_CPP:LLAMA_CPP/gguf-py python tests/oracle/make_gguf.py [--only llama3,qwen3] [--keep FOLDER]

LLAMA_CPP is a source directory of llama.cpp; its converter needs torch, transformers and sentencepiece. Every variant
is converted to a float32 file, whose header is stored and whose tensors are described as rows of the checkpoint's
tensors (see `tiny_gguf`); what cannot be described so is stored as it is. `check_gguf.py` then compares llama.cpp on
the kept files with the goldens.
"""

import argparse
import hashlib
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import conversion
import gguf
import numpy as np
from make_tiny import folded

import tiny_gguf
import tiny_models

# What the converter reads from hub configs and current configs no longer hold; None removes a key.
CONFIG_CHANGES: dict[str, dict[str, Any]] = {}
PRE_TOKENIZERS = {"qwen": "qwen2", "llama": "llama-bpe", "mistral": "llama-bpe"}
LARGEST_STORED = 60_000  # bytes of a variant that may be stored as they are


def convert(variant: str, output: Path, with_vocabulary: bool) -> None:
    """Writes the float32 file; without a vocabulary its tokenizer model is "none"."""
    form = "legacy" if tiny_models.description(variant)["legacy_config"] else "v5"
    directory = tiny_models.build(variant, output.parent / variant, "f32", form)
    config = json.loads((directory / "config.json").read_text()) | CONFIG_CHANGES.get(variant, {})
    config = {key: value for key, value in config.items() if value is not None}
    (directory / "config.json").write_text(json.dumps(config))
    hparams = conversion.ModelBase.load_hparams(directory, False)
    architecture = conversion.get_model_architecture(hparams, conversion.ModelType.TEXT)
    model_class = conversion.get_model_class(architecture)
    model_class.no_mtp = model_class.supports_mtp_export
    with vocabulary(conversion.TextModel, model_class, architecture.lower(), with_vocabulary):
        model_class(directory, gguf.LlamaFileType.ALL_F32, output, model_name=variant).write()


@contextmanager
def vocabulary(text_model: type, model_class: type, architecture: str, wanted: bool) -> Iterator[None]:
    """The converter knows pre-tokenizers by a hash over published vocabularies: name ours by the architecture."""
    name = next((value for key, value in PRE_TOKENIZERS.items() if key in architecture), "gpt-2")
    with mock.patch.object(text_model, "get_vocab_base_pre", lambda self, tokenizer: name):
        if wanted:
            yield
        else:
            with mock.patch.object(model_class, "set_vocab", lambda self: self.gguf_writer.add_tokenizer_model("none")):
                yield


class Rows:
    """Finds rows of converted tensors among those of the checkpoint."""

    def __init__(self, weights: dict[str, np.ndarray]) -> None:
        self.weights = weights
        self.counts = {name: array.size // array.shape[-1] for name, array in weights.items()}
        self.transposed_counts = {
            name: array.size // array.shape[-2] for name, array in weights.items() if array.ndim > 1
        }
        self.places: dict[bytes, tuple[str, int, str]] = {}
        for name, array in weights.items():
            if array.ndim > 1:
                self.add(name, array.swapaxes(-1, -2), "transposed")
        for name, array in weights.items():
            if array.ndim == 1:
                self.add(name, array + np.float32(1), "plus_one")
        for name, array in weights.items():
            self.add(name, array, "")

    def add(self, name: str, array: np.ndarray, how: str) -> None:
        for index, row in enumerate(np.ascontiguousarray(array).reshape(-1, array.shape[-1])):
            self.places[row.tobytes()] = (name, index, how)

    def describe(self, values: np.ndarray) -> tuple[dict[str, Any], np.ndarray | None] | None:
        """The recipe of a tensor with its row indices, or None where some row is not of the checkpoint."""
        found = [self.places.get(row.tobytes()) for row in values.reshape(-1, values.shape[-1])]
        if None in found or len({how for _, _, how in found}) > 1:
            return None
        how = found[0][2]
        names = list(dict.fromkeys(name for name, _, _ in found))
        counts = self.transposed_counts if how == "transposed" else self.counts
        start = dict(zip(names, np.cumsum([0] + [counts[name] for name in names]), strict=False))
        rows = np.array([start[name] + index for name, index, _ in found], np.int32)
        recipe: dict[str, Any] = {"from": list(folded(dict.fromkeys(names)))}
        if [name for pattern in recipe["from"] for name in tiny_models.expand(pattern)] != names:
            recipe["from"] = names
        if how:
            recipe[how] = True
        in_order = len(rows) == sum(counts[name] for name in names) and (rows == np.arange(len(rows))).all()
        return recipe, None if in_order else rows


def describe(variant: str, path: Path) -> None:
    """Writes the variant's data file and checks that the very same file is built from it."""
    reader = gguf.GGUFReader(path)
    rows = Rows({name: array for name, (_, array) in tiny_models.weights(variant, "f32")})
    content = path.read_bytes()
    tensors: list[dict[str, Any]] = []
    arrays: dict[str, np.ndarray] = {}
    stored = 0
    for tensor in sorted(reader.tensors, key=lambda tensor: tensor.data_offset):
        values = np.array(tensor.data)
        if values.dtype != np.float32:
            raise ValueError(f"{variant}: {tensor.name} is {tensor.tensor_type.name}")
        described = rows.describe(values)
        if described is None:
            stored += values.nbytes
            tensors.append({"stored": tensor.name})
            half = values.astype(np.float16)
            arrays[tensor.name] = half if np.array_equal(half, values) else values
        else:
            recipe, indices = described
            if indices is not None:
                recipe["rows"] = tensor.name
                arrays[tensor.name] = indices
            tensors.append(recipe)
    if stored > LARGEST_STORED:
        raise ValueError(f"{variant}: {stored} bytes are not rows of the checkpoint")
    arrays |= {
        "header": np.frombuffer(content[: reader.data_offset], np.uint8),
        "tensors": np.frombuffer(json.dumps(tensors).encode(), np.uint8),
        "sha256": np.frombuffer(hashlib.sha256(content).digest(), np.uint8),
    }
    tiny_gguf.DATA.mkdir(exist_ok=True)
    np.savez_compressed(tiny_gguf.DATA / f"{variant}.npz", **arrays)
    tiny_gguf.build(variant, path.with_suffix(".rebuilt"))
    path.with_suffix(".rebuilt").unlink()
    size = (tiny_gguf.DATA / f"{variant}.npz").stat().st_size
    names = [recipe["stored"] for recipe in tensors if "stored" in recipe]
    print(f"{variant:22s} {size} bytes, stored as they are: {', '.join(names) or 'none'}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="comma-separated variants, by default all")
    parser.add_argument("--keep", type=Path, help="keep the converted files there as <variant>.gguf")
    parser.add_argument("--no-vocabulary", action="store_true", help="leave the tokenizer out")
    arguments = parser.parse_args()
    for variant in arguments.only.split(",") if arguments.only else tiny_models.variants():
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / f"{variant}.gguf"
            convert(variant, path, not arguments.no_vocabulary)
            if arguments.keep:
                arguments.keep.mkdir(parents=True, exist_ok=True)
                (arguments.keep / path.name).write_bytes(path.read_bytes())
            describe(variant, path)


if __name__ == "__main__":
    main()
