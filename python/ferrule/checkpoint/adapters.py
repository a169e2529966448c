"""Reads LoRA adapters (Hu et al. 2021), PEFT directories and GGUF files: what they add to which matrix.

Sources: what PEFT saves and how it scales, what llama.cpp's converter of adapters writes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ..errors import AdapterError, ModelNotFound
from ..formats import FORMATS
from . import gguf_names
from .base import StoredTensor
from .gguf import read_gguf
from .peft_config import LARGEST, MERGE, PeftConfig
from .safetensors import read_safetensors

Tensors = dict[str, StoredTensor]
V = TypeVar("V")

_CONFIG, _WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_PEFT_NAME = re.compile(r"base_model\.model\.(.+)\.lora_(?:([AB])\.weight|embedding_([AB]))")
_MAGNITUDE = re.compile(r"base_model\.model\.(.+)\.lora_magnitude_vector(?:\.weight)?")
_WHOLE = re.compile(r"base_model\.model\.(.+?)(?:\.base_layer|\.modules_to_save)?(\.weight|\.bias)")
_GGUF_NAME = re.compile(r"(.+)\.weight\.lora_([ab])")


@dataclass(frozen=True, eq=False)
class LowRank:
    """What an adapter adds to a matrix [n_out, n_in]: scale * b @ a, a: [rank, n_in], b: [n_out, rank].

    An embedding counts as a matrix whose columns are the rows that it looks up.
    `magnitude` [n_out] are the norms that rows of the sum are then given (DoRA, Liu et al. 2024).
    """

    a: StoredTensor
    b: StoredTensor
    scale: float
    magnitude: StoredTensor | None = None


@dataclass(frozen=True, eq=False)
class Adapter:
    """One adapter on disk, `path` its weights.

    `deltas` are by Hugging Face's name of the matrix, without ".weight". `architecture` is GGUF's name of the base's
    architecture, whose order the rows of `b` then have; None in Hugging Face's order. `tensors` replace those of the
    model, under Hugging Face's names.
    """

    path: Path
    architecture: str | None
    deltas: Mapping[str, LowRank]
    tensors: Mapping[str, StoredTensor] = field(default_factory=dict)

    def info(self) -> dict[str, Any]:
        """What it is, as plain data."""
        factors = [factor for delta in self.deltas.values() for factor in (delta.a, delta.b)]
        return {
            "path": str(self.path),
            "matrices": len(self.deltas),
            "ranks": sorted({delta.a.shape[0] for delta in self.deltas.values()}),
            "bytes": sum(factor.data.nbytes for factor in factors),
        }


def open_adapter(path: str | Path) -> Adapter:
    """Opens a directory with adapter_config.json and adapter_model.safetensors, or a GGUF file.

    Raises ModelNotFound where there is none, CorruptFile for a damaged file, AdapterError for an adapter of a kind that
    is not supported or that contradicts itself.
    """
    path = Path(path).expanduser()
    if path.is_dir():
        return _open_peft(path)
    if not path.is_file():
        raise ModelNotFound("no such adapter", path=path, hint="Give a PEFT directory or a GGUF file")
    if path.name in (_CONFIG, _WEIGHTS):
        return _open_peft(path.parent)
    return _open_gguf(path)


def _open_peft(directory: Path) -> Adapter:
    config_path, path = directory / _CONFIG, directory / _WEIGHTS
    for file in (config_path, path):
        if not file.is_file():
            is_pickled = file == path and (directory / "adapter_model.bin").is_file()
            convert = "Convert adapter_model.bin: load it with PEFT and call save_pretrained"
            hint = convert if is_pickled else f"A PEFT adapter is a directory with {_CONFIG} and {_WEIGHTS}"
            raise ModelNotFound(f"the adapter has no {file.name}", path=directory, hint=hint)
    config = PeftConfig.read(config_path)
    deltas: dict[str, LowRank] = {}
    factors, magnitudes, whole = _by_purpose(read_safetensors(path), path)
    for module, (a, b) in _pairs(factors, _PEFT_NAME, path).items():
        fused = _fused_experts(module, config.target_parameters)
        name = fused or module
        rank, scale = config.rank_and_scale(name)
        if a.shape[0] != rank and (fused is None or rank % 1 or a.shape[0] % rank):
            raise AdapterError(
                f"the rank is not that of {_CONFIG}",
                path=path,
                tensor=a.name,
                expected=f"{rank:g}",
                found=str(a.shape[0]),
            )
        delta = LowRank(a, b, scale, magnitudes.pop(module, None))
        for matrix, part in ({name: delta} if fused is None else _unstacked(fused, delta, int(rank), path)).items():
            _add(deltas, matrix, part, part.b, path)
    if magnitudes:
        raise AdapterError("no factors belong to it", path=path, tensor=next(iter(magnitudes.values())).name)
    return Adapter(path, None, deltas, whole)


def _by_purpose(tensors: Tensors, path: Path) -> tuple[Tensors, Tensors, Tensors]:
    """Factors by their own names, magnitudes by those of their matrices, tensors that replace the model's by theirs."""
    factors: Tensors = {}
    magnitudes: Tensors = {}
    whole: Tensors = {}
    for name, tensor in tensors.items():
        if match := _MAGNITUDE.fullmatch(name):
            _add(magnitudes, match[1], tensor, tensor, path)
        elif ".lora_" not in name and (match := _WHOLE.fullmatch(name)):
            _add(whole, match[1] + match[2], tensor, tensor, path)
        else:
            factors[name] = tensor
    return factors, magnitudes, whole


def _add(found: dict[str, V], name: str, value: V, tensor: StoredTensor, path: Path) -> None:
    """Adds what `tensor` says of a matrix. Raises where another tensor has said so before."""
    if name in found:
        raise AdapterError("another tensor stands for the same part of the model", path=path, tensor=tensor.name)
    found[name] = value


def _fused_experts(module: str, parameters: list[str]) -> str | None:
    """The parameter that factors under this name are for, where they are those of all experts.

    PEFT wraps experts once for each of their parameters, first gate_up_proj, then down_proj.
    """
    if module.endswith(".experts.base_layer"):
        return f"{module.removesuffix('.base_layer')}.gate_up_proj"
    if not module.endswith(".experts"):
        return None
    is_down = any(str(parameter).endswith("down_proj") for parameter in parameters)
    return f"{module}.{'down_proj' if is_down else 'gate_up_proj'}"


def _unstacked(name: str, delta: LowRank, rank: int, path: Path) -> dict[str, LowRank]:
    """The factors of each expert's matrices, of a: [experts * rank, n_in] and b: [n_out, rank * experts]."""
    experts, _, part = name.rpartition(".")
    count = delta.a.shape[0] // rank
    if delta.magnitude is not None:
        raise AdapterError(
            "magnitudes of experts are not supported", path=path, tensor=delta.magnitude.name, hint=MERGE
        )
    if part == "gate_up_proj" and delta.b.shape[0] % 2:
        raise AdapterError(
            "the rows of gate and up are not as many",
            path=path,
            tensor=delta.b.name,
            expected="an even number",
            found=str(delta.b.shape[0]),
        )
    a = delta.a.data.reshape(count, -1)
    b = FORMATS[delta.b.format].decode(delta.b.data, delta.b.shape).reshape(-1, rank, count)
    halves = ("gate_proj", "up_proj") if part == "gate_up_proj" else (part,)
    unstacked = {}
    for expert in range(count):
        of_expert = replace(delta.a, shape=(rank, delta.a.shape[1]), data=a[expert])
        for half, rows in zip(halves, np.split(b[:, :, expert], len(halves)), strict=True):
            data = np.ascontiguousarray(rows, np.float32).reshape(-1).view(np.uint8)
            factor = replace(delta.b, shape=rows.shape, format="F32", data=data)
            unstacked[f"{experts}.{expert}.{half}"] = LowRank(of_expert, factor, delta.scale)
    return unstacked


def _open_gguf(path: Path) -> Adapter:
    file = read_gguf(path)
    kind = file.metadata.get("general.type"), file.metadata.get("adapter.type")
    if kind != ("adapter", "lora"):
        raise AdapterError(
            "the file holds no LoRA adapter",
            path=path,
            expected="general.type adapter, adapter.type lora",
            found=", ".join(map(str, kind)),
            hint="Give the model as the model, and an adapter made by llama.cpp's convert_lora_to_gguf.py here",
        )
    if file.metadata.get("adapter.alora.invocation_tokens"):
        raise AdapterError("adapters that begin at given tokens (aLoRA) are not supported", path=path)
    architecture, alpha = file.metadata.get("general.architecture"), file.metadata.get("adapter.lora.alpha")
    if not isinstance(architecture, str) or not isinstance(alpha, float) or not 0 <= alpha <= LARGEST:
        raise AdapterError(
            "metadata keys general.architecture, adapter.lora.alpha",
            path=path,
            expected="a string and a number from 0 up",
            found=f"{architecture!r}, {alpha!r}",
        )
    deltas: dict[str, LowRank] = {}
    for name, (a, b) in _pairs(file.tensors, _GGUF_NAME, path, stacks=True).items():
        module = gguf_names.hf_tensor_name(architecture, f"{name}.weight").removesuffix(".weight")
        scale = alpha / b.shape[-1] if alpha else 1.0
        if len(a.shape) == 2:
            _add(deltas, module, LowRank(a, b, scale), b, path)
            continue
        experts, _, part = module.rpartition(".")
        for expert, (a_e, b_e) in enumerate(zip(_slices(a), _slices(b), strict=True)):
            _add(deltas, f"{experts}.{expert}.{part}", LowRank(a_e, b_e, scale), b, path)
    return Adapter(path, architecture, deltas)


def _slices(stored: StoredTensor) -> list[StoredTensor]:
    """The matrices of a tensor [n, rows, columns]."""
    parts = stored.data.reshape(stored.shape[0], -1)
    return [replace(stored, shape=stored.shape[1:], data=part) for part in parts]


def _pairs(
    tensors: Mapping[str, StoredTensor], pattern: re.Pattern[str], path: Path, *, stacks: bool = False
) -> dict[str, tuple[StoredTensor, StoredTensor]]:
    """The factors a and b of every matrix, or with `stacks` of the stacked ones of experts, by its name."""
    factors: dict[str, dict[str, StoredTensor]] = {}
    for name, tensor in tensors.items():
        match = pattern.fullmatch(name)
        if match is None:
            raise AdapterError("the tensor is no factor of a matrix's delta", path=path, tensor=name, hint=MERGE)
        _add(factors.setdefault(match[1], {}), match[match.lastindex or 0].lower(), tensor, tensor, path)
    if not factors:
        raise AdapterError("the adapter holds no tensors", path=path)
    pairs = {}
    for module, found in factors.items():
        a, b = found.get("a"), found.get("b")
        if a is None or b is None:
            there = next(iter(found.values()))
            raise AdapterError("its other factor is missing", path=path, tensor=there.name, hint="Download it again")
        if (
            not len(a.shape) == len(b.shape) in ((2, 3) if stacks else (2,))
            or a.shape[:-2] != b.shape[:-2]
            or b.shape[-1] != a.shape[-2]
            or 0 in a.shape + b.shape
        ):
            raise AdapterError(
                "the factors' shapes do not fit each other",
                path=path,
                tensor=b.name,
                expected="[n_out, rank] and [rank, n_in]",
                found=f"{list(b.shape)} and {list(a.shape)}",
            )
        pairs[module] = a, b
    return pairs
