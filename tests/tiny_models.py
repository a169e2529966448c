"""Tiny checkpoints of every supported family, rebuilt from a seed, with float32 golden outputs.

`tests/data/tiny/<variant>.json` describes a checkpoint: its config in the current and, where it differs, the older form
of the hub, its tokenizer, and for every tensor of the file its shape and distribution. `tests/data/tiny/<variant>.npz`
holds what transformers computes from it in float32 with eager attention (see `tests/oracle/make_tiny.py`).

Every weight is exactly representable in bfloat16 and in float16, so the f32, bf16 and f16 files of a variant share one
golden. Only integer arithmetic and exactly rounded float operations are used, so the bytes are the same on any platform
and with any NumPy.
"""

import functools
import hashlib
import itertools
import json
import math
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

DATA = Path(__file__).parent / "data" / "tiny"
VOCABULARY = 384
PROMPT_LENGTHS = (1, 7, 40)

# A list of the tensor recipe: shape, kind, mean, standard deviation (for "bytes": the inclusive range).
Recipe = tuple[list[int], str, float, float]


@dataclass(frozen=True)
class PromptGolden:
    """What the oracle computes for one prompt.

    `logits[i]` (float32 [n, vocabulary]) belongs to position `positions[i]` of the prompt, computed without a cache.
    `greedy` are the 16 tokens of greedy decoding with the model's own cache; `step_logits[i]` (float32
    [m, vocabulary]) are the logits from which the greedy token number `steps[i]` was chosen.
    """

    ids: np.ndarray
    positions: np.ndarray
    logits: np.ndarray
    greedy: np.ndarray
    steps: np.ndarray
    step_logits: np.ndarray


@dataclass(frozen=True)
class MropeGolden:
    """Logits (float32 [n, vocabulary]) of text ids [n] under explicit (time, height, width) positions [3, n]."""

    ids: np.ndarray
    positions: np.ndarray
    logits: np.ndarray


@dataclass(frozen=True)
class Golden:
    """Goldens of a variant: one entry per prompt length, and those of three-dimensional positions where it has any."""

    prompts: dict[int, PromptGolden]
    mrope: MropeGolden | None


# (variant, largest error of a logit) with a cache in q8_0: plain heads, softcap and window, sinks, biases by distance,
# latents. Logits have a standard deviation of 4.
QUANTISED_CACHE = [("llama3", 0.5), ("gemma2", 0.15), ("gpt_oss", 1.2), ("bloom", 0.3), ("deepseek_v3", 0.4)]


def variants() -> list[str]:
    """Names of all variants."""
    return sorted(path.stem for path in DATA.glob("*.npz"))


@functools.cache
def description(variant: str) -> dict[str, Any]:
    """The content of the variant's JSON file; do not modify it."""
    path = DATA / f"{variant}.json"
    if not path.exists():
        raise KeyError(f"no tiny model named {variant!r}; there are {', '.join(variants())}")
    return json.loads(path.read_text())


@functools.cache
def golden(variant: str) -> Golden:
    """The oracle's prompts, logits and greedy tokens for `variant`, whatever dtype and form its files have."""
    with np.load(DATA / f"{variant}.npz") as arrays:
        prompts = {
            n: PromptGolden(*(arrays[f"{field}_{n}"] for field in PromptGolden.__dataclass_fields__))
            for n in PROMPT_LENGTHS
        }
        mrope = None
        if "mrope_ids" in arrays:
            mrope = MropeGolden(*(arrays[f"mrope_{field}"] for field in MropeGolden.__dataclass_fields__))
    return Golden(prompts, mrope)


def build(
    variant: str, directory: Path | str, dtype: str | None = None, form: str = "v5", shards: int | None = None
) -> Path:
    """Writes the checkpoint of `variant` into `directory`, made if missing, and returns it.

    `dtype` is "f32", "bf16" or "f16", by default the variant's own; `form` "v5" or "legacy" selects the config written
    by transformers 5 or the one of older files; `shards` > 1 splits the weights over that many files with an index.
    """
    about = description(variant)
    dtype = dtype or about["dtype"]
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    config = about["config"] if form == "v5" else about["legacy_config"]
    write_json(directory / "config.json", with_dtype(config, dtype))
    write_json(directory / "generation_config.json", about["generation_config"])
    for source in (DATA / "tokenizers" / about["tokenizer"]).iterdir():
        shutil.copyfile(source, directory / source.name)
    write_weights(directory, dict(weights(variant, dtype)), shards or about.get("shards", 1))
    return directory


def weights(variant: str, dtype: str | None = None) -> Iterator[tuple[str, tuple[str, np.ndarray]]]:
    """Yields (name, (stored type, array)) for the tensors of `variant`, in the order of the file.

    Stored types are those of the safetensors header; a BF16 array holds the upper halves of float32 values as uint16.
    """
    about = description(variant)
    return generate(variant, about["seed"], about["tensors"], dtype or about["dtype"])


def generate(
    variant: str, seed: int, recipes: dict[str, Recipe], dtype: str
) -> Iterator[tuple[str, tuple[str, np.ndarray]]]:
    """As `weights`, for a given seed and folded recipes."""
    for pattern, recipe in recipes.items():
        for name in expand(pattern):
            if recipe[1] == "bytes":
                yield name, ("U8", random_bytes(f"{variant}/{seed}/{name}", recipe))
            else:
                yield name, stored(values(f"{variant}/{seed}/{name}", recipe), dtype)


def fingerprint(variant: str) -> str:
    """SHA-256 over names and float32 values of all tensors, in hexadecimal."""
    digest = hashlib.sha256()
    for name, (_, array) in weights(variant, "f32"):
        digest.update(name.encode() + array.tobytes())
    return digest.hexdigest()


def values(key: str, recipe: Recipe) -> np.ndarray:
    """Float32 values of a tensor, exactly representable in bfloat16 and float16, from a generator seeded by `key`.

    "normal": mean + deviation·n. "flipped": the same with random signs, and "flipped_plus_one": 1 + w has random signs.
    """
    shape, kind, mean, deviation = recipe
    count = math.prod(shape)
    bits = raw_bits(key, count + -(-count // 64))
    # A sum of four uniform 16-bit integers is close to normal and, unlike the usual transforms, needs no logarithm.
    uniforms = bits[:count].view("<u2").reshape(count, 4).astype(np.int64).sum(axis=1)
    w = mean + deviation * ((uniforms - 2 * 65535) / (65536 * math.sqrt(4 / 12)))
    if kind.startswith("flipped"):
        one = 1 if kind == "flipped_plus_one" else 0
        signs = np.unpackbits(bits[count:].view("u1"), count=count) * 2.0 - 1.0
        w = (w + one) * signs - one
    return round_to_bf16(w.astype(np.float32)).reshape(shape)


def random_bytes(key: str, recipe: Recipe) -> np.ndarray:
    """Uint8 values, uniform over the inclusive range of the recipe."""
    shape, _, low, high = recipe
    count = math.prod(shape)
    draws = raw_bits(key, -(-count // 4)).view("<u2")[:count].astype(np.int64)
    return (int(low) + draws % int(high - low + 1)).astype(np.uint8).reshape(shape)


def raw_bits(key: str, count: int) -> np.ndarray:
    """`count` random little-endian uint64; the streams of bit generators, unlike distributions, never change."""
    seed = int.from_bytes(hashlib.sha256(key.encode()).digest()[:16], "little")
    return np.random.PCG64(np.random.SeedSequence(seed)).random_raw(count).astype("<u8")


def round_to_bf16(x: np.ndarray) -> np.ndarray:
    """Rounds float32 to the nearest bfloat16, ties to even; what is below float16's normal range becomes zero."""
    bits = x.view(np.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)).view(np.float32)
    return np.where(np.abs(rounded) < 2.0**-14, np.float32(0), rounded)


def stored(x: np.ndarray, dtype: str) -> tuple[str, np.ndarray]:
    """The safetensors type and array of float32 values in `dtype`; exact for values made here."""
    if dtype == "f32":
        return "F32", x.astype("<f4")
    if dtype == "f16":
        return "F16", x.astype("<f2")
    if dtype == "bf16":
        return "BF16", (x.view(np.uint32) >> 16).astype("<u2")
    raise ValueError(f"dtype must be 'f32', 'bf16' or 'f16', not {dtype!r}")


def expand(pattern: str) -> Iterator[str]:
    """Names of a folded pattern: "a.{0-2,5}.b" stands for a.0.b, a.1.b, a.2.b and a.5.b."""
    parts = re.split(r"\{([0-9,-]+)\}", pattern)
    for chosen in itertools.product(*(index_list(part) for part in parts[1::2])):
        yield "".join(a + b for a, b in itertools.zip_longest(parts[::2], map(str, chosen), fillvalue=""))


def index_list(text: str) -> list[int]:
    """[0, 1, 2, 5] for "0-2,5"."""
    ranges = [[int(end) for end in part.split("-")] for part in text.split(",")]
    return [index for ends in ranges for index in range(ends[0], ends[-1] + 1)]


def with_dtype(config: dict[str, Any], dtype: str) -> dict[str, Any]:
    """A copy of the config whose dtype entries, nested ones too, name `dtype`."""
    name = {"f32": "float32", "bf16": "bfloat16", "f16": "float16"}[dtype]
    return {
        key: name
        if key in ("dtype", "torch_dtype") and value
        else with_dtype(value, dtype)
        if isinstance(value, dict)
        else value
        for key, value in config.items()
    }


def write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n")


def write_weights(directory: Path, tensors: dict[str, tuple[str, np.ndarray]], shards: int) -> None:
    """Writes model.safetensors, or `shards` files of about equal size with model.safetensors.index.json."""
    if shards == 1:
        write_safetensors(directory / "model.safetensors", tensors)
        return
    total = sum(array.nbytes for _, array in tensors.values())
    files: list[dict[str, tuple[str, np.ndarray]]] = [{} for _ in range(shards)]
    written = 0
    for name, tensor in tensors.items():
        files[written * shards // total][name] = tensor
        written += tensor[1].nbytes
    index = {}
    for number, content in enumerate(files, 1):
        file = f"model-{number:05}-of-{shards:05}.safetensors"
        write_safetensors(directory / file, content)
        index.update(dict.fromkeys(content, file))
    write_json(directory / "model.safetensors.index.json", {"metadata": {"total_size": total}, "weight_map": index})


def write_safetensors(path: Path, tensors: dict[str, tuple[str, np.ndarray]]) -> None:
    """Writes a safetensors file: header length (u64), JSON header padded to 8 bytes, tensor data."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, (kind, array) in tensors.items():
        begin, end = end, end + array.nbytes
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, array in tensors.values():
            file.write(array.tobytes())
