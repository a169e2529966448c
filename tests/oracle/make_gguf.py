"""Makes tests/data/gguf: how llama.cpp's own converter lays out the tiny checkpoints.

    PYTHONPATH=tests:LLAMA_CPP:LLAMA_CPP/gguf-py python tests/oracle/make_gguf.py [--only llama3,qwen3] [--keep FOLDER]

LLAMA_CPP is a source directory of llama.cpp; its converter needs torch, transformers and sentencepiece. Every variant
is converted to a float32 file, whose header is stored and whose tensors are described as rows of the checkpoint's
tensors (see `tiny_gguf`); what cannot be described so is stored as it is. `check_gguf.py` then compares llama.cpp on
the kept files with the goldens. Variants whose file lacks what makes them special (a window in an architecture that
knows none, a scale, a router's kind) have no golden for it and are left out.
"""

import argparse
import copy
import hashlib
import json
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

import conversion
import gguf
import numpy as np
from make_tiny import folded

import tiny_gguf
import tiny_models

DROP = object()
# Keys the converter reads that transformers no longer writes, by path.
SIGMOID = {"scoring_func": "sigmoid"}
CONFIG_CHANGES: dict[str, dict[str, Any]] = {
    "command_r7b": {"rotary_pct": 1.0},
    "deepseek_v32": SIGMOID | {"num_nextn_predict_layers": 0, "first_k_dense_replace": 1},
    "dots1": SIGMOID,
    "falcon_7b": {"n_head_kv": 1, "num_kv_heads": DROP},
    "gemma4_unified": {"text_config.moe_intermediate_size": None, "text_config.expert_intermediate_size": None},
    "glm4_moe": SIGMOID,
    "glm4_moe_lite": SIGMOID | {"first_k_dense_replace": 1, "topk_method": "noaux_tc"},
    "glm_moe_dsa": SIGMOID | {"num_nextn_predict_layers": 0, "first_k_dense_replace": 1},
    "gpt2": {"n_ctx": 128},
    "gpt_neox": {"rotary_pct": 0.25},
    "gpt_neox_seq": {"rotary_pct": 1.0},
    "kimi_linear": {
        "linear_attn_config": {
            "full_attn_layers": [3],
            "kda_layers": [1, 2],
            "head_dim": 16,
            "num_heads": 4,
            "short_conv_kernel_size": 4,
        },
        "first_k_dense_replace": 1,
        "num_experts": 8,
        "num_experts_per_token": 2,
        "moe_router_activation_func": "sigmoid",
        "num_shared_experts": 1,
        "moe_renormalize": True,
        "num_expert_group": 1,
        "topk_group": 1,
        "moe_layer_freq": 1,
    },
    "minimax_m2": SIGMOID | {"rotary_dim": 16},
    "mpt_clip": {"architectures": ["MPTForCausalLM"]},
    "nemotron_h": {
        "hybrid_override_pattern": "M-M*-",
        "layers_block_type": ["mamba", "mlp", "mamba", "attention", "mlp"],
        "num_experts_per_tok": DROP,
        "n_routed_experts": DROP,
        "num_local_experts": DROP,
        "num_experts": DROP,
        "n_shared_experts": DROP,
        "moe_shared_expert_intermediate_size": DROP,
        "n_group": DROP,
        "topk_group": DROP,
    },
    "nemotron_h_moe": {"layers_block_type": ["mamba", "moe", "attention", "moe"]},
    "phi3_5_moe": {"original_max_position_embeddings": 512},
}
PRE_TOKENIZERS = {"qwen": "qwen2", "llama": "llama-bpe", "mistral": "llama-bpe"}
# Families whose converter wants a vocabulary unlike ours: the file says that it has none.
NO_VOCABULARY = (
    "glm",
    "minicpm3",
    "mistral4",
    "moonlight",
    "mpt",
    "nemotron",
    "phi",
    "kimi_linear",
    "bitnet",
    "deepseek_v32",
)
LARGEST_STORED = 60_000  # bytes of a variant that may be stored as they are


def convert(variant: str, output: Path) -> None:
    """Writes the float32 file."""
    form = "legacy" if tiny_models.description(variant)["legacy_config"] else "v5"
    directory = tiny_models.build(variant, output.parent / variant, "f32", form)
    hparams = conversion.ModelBase.load_hparams(directory, False)
    for keys, value in CONFIG_CHANGES.get(variant, {}).items():
        *parents, key = keys.split(".")
        part = hparams[parents[0]] if parents else hparams
        if value is DROP:
            part.pop(key, None)
        else:
            part[key] = value
    architecture = conversion.get_model_architecture(hparams, conversion.ModelType.TEXT)
    model_class = conversion.get_model_class(architecture)
    model_class.no_mtp = model_class.supports_mtp_export

    # The converter knows pre-tokenizers by a hash over published vocabularies: name ours by the architecture.
    pre_tokenizer = next((value for key, value in PRE_TOKENIZERS.items() if key in architecture.lower()), "gpt-2")
    patches = [
        mock.patch.object(conversion.TextModel, "get_vocab_base_pre", lambda self, tokenizer: pre_tokenizer),
        mock.patch.object(conversion.ModelBase, "load_hparams", staticmethod(lambda *_, **__: copy.deepcopy(hparams))),
    ]
    if variant.startswith(NO_VOCABULARY):
        patches.append(mock.patch.object(model_class, "set_vocab", set_no_vocabulary))
    with ExitStack() as stack:
        for patch in patches:
            stack.enter_context(patch)
        model_class(directory, gguf.LlamaFileType.ALL_F32, output, model_name=variant).write()


def set_no_vocabulary(self: conversion.TextModel) -> None:
    self.gguf_writer.add_tokenizer_model("none")
    self.gguf_writer.add_vocab_size(tiny_models.VOCABULARY)


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
    rows = Rows({name: np.atleast_1d(array) for name, (_, array) in tiny_models.weights(variant, "f32")})
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
    parser.add_argument("--only", help="comma-separated variants, by default those there are")
    parser.add_argument("--keep", type=Path, help="keep the converted files there as <variant>.gguf")
    arguments = parser.parse_args()
    for variant in arguments.only.split(",") if arguments.only else tiny_gguf.variants():
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / f"{variant}.gguf"
            convert(variant, path)
            if arguments.keep:
                arguments.keep.mkdir(parents=True, exist_ok=True)
                (arguments.keep / path.name).write_bytes(path.read_bytes())
            describe(variant, path)


if __name__ == "__main__":
    main()
