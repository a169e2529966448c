"""Truncated, corrupt and hostile GGUF files: each ends quickly in an error that names file, place and cause."""

import struct
from pathlib import Path

import gguf
import numpy as np
import pytest
from checkpoint_files import LLAMA, raw_gguf, raw_key, raw_tensor, string, write_gguf

from ferrule.checkpoint import open_checkpoint
from ferrule.checkpoint.gguf import read_gguf
from ferrule.errors import CorruptFile, FerruleError, UnsupportedQuantization

F32_DATA = bytes(128)


def u32(value: int) -> bytes:
    return struct.pack("<I", value)


def u64(value: int) -> bytes:
    return struct.pack("<Q", value)


def array(kind: int, count: int, payload: bytes = b"") -> bytes:
    return raw_key("k", 9, u32(kind) + u64(count) + payload)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A complete little model with every kind of metadata value and several tensors."""
    keys = LLAMA | {"tokenizer.ggml.tokens": ["a", "bc", ""], "tokenizer.ggml.scores": [0.5, 1.0, 2.0], "flag": True}
    weights = np.random.default_rng(0).standard_normal((4, 64)).astype(np.float32)
    tensors = {
        "token_embd.weight": (gguf.quantize(weights, gguf.GGMLQuantizationType.Q8_0), gguf.GGMLQuantizationType.Q8_0),
        "blk.0.attn_q.weight": (gguf.quantize(weights, gguf.GGMLQuantizationType.Q4_0), gguf.GGMLQuantizationType.Q4_0),
        "output_norm.weight": (weights[0].copy(), None),
    }
    return write_gguf(tmp_path / "small.gguf", keys, tensors)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b"GGUF", "the header runs past the end", id="magic only"),
        pytest.param(b"GGUF" + u32(3), "tensor count runs past the end", id="no counts"),
        pytest.param(raw_gguf(version=1), "found 1. Convert the model again", id="version 1"),
        pytest.param(raw_gguf(version=4), "found 4", id="version 4"),
        pytest.param(raw_gguf(version=3 << 24), "found big-endian", id="big-endian"),
        pytest.param(raw_gguf(n_keys=2**64 - 1), "metadata key .* runs past the end", id="endless metadata"),
        pytest.param(raw_gguf(n_tensors=2**64 - 1), "tensor .* runs past the end", id="endless tensors"),
        pytest.param(raw_gguf([u64(2**60) + b"key"]), "metadata key 0 of 1 runs past", id="key beyond the file"),
        pytest.param(raw_gguf([u64(2**64 - 8) + b"key"]), "metadata key 0 of 1 runs past", id="key length near 2^64"),
        pytest.param(raw_gguf([raw_key(b"\xff\xfe", 0, b"\0")]), "not UTF-8", id="key is not text"),
        pytest.param(raw_gguf([raw_key("k", 0, b"\1")] * 2), "key k appears twice", id="key twice"),
        pytest.param(
            raw_gguf([raw_key("k", 13, b"")]), "value type of metadata key k at byte 33", id="unknown value type"
        ),
        pytest.param(raw_gguf([raw_key("k", 2**32 - 1, b"")]), "value type of metadata key k", id="value type -1"),
        pytest.param(raw_gguf([raw_key("k", 8, u64(2**60))]), "key k runs past the end", id="string beyond the file"),
        pytest.param(raw_gguf([raw_key("k", 8, string(b"\xc3"))]), "key k is not UTF-8", id="string is not text"),
        pytest.param(raw_gguf([array(4, 2**60)]), "array of metadata key k at byte 37", id="endless array of numbers"),
        pytest.param(raw_gguf([array(8, 2**60)]), "array of metadata key k at byte 37", id="endless array of strings"),
        pytest.param(raw_gguf([array(4, 2**24)]), "key k runs past the end", id="array beyond the file"),
        pytest.param(raw_gguf([array(8, 2**24)]), "key k runs past the end", id="strings beyond the file"),
        pytest.param(
            raw_gguf([array(8, 3, string("a") + string("bc") + u64(999))]),
            "string 2 of metadata key k runs past the end of the file at byte 68",
            id="third string beyond the file",
        ),
        pytest.param(raw_gguf([array(9, 1, u32(4) + u64(0))]), "no nested array; found 9", id="nested array"),
        pytest.param(raw_gguf([array(99, 1)]), "value type of metadata key k", id="array of unknown type"),
        pytest.param(raw_gguf([raw_key("general.alignment", 4, u32(0))]), "general.alignment", id="alignment 0"),
        pytest.param(raw_gguf([raw_key("general.alignment", 4, u32(48))]), "general.alignment", id="alignment 48"),
        pytest.param(raw_gguf([raw_key("general.alignment", 4, u32(4))]), "general.alignment", id="alignment 4"),
        pytest.param(
            raw_gguf([raw_key("general.alignment", 5, u32(2**32 - 32))]), "alignment", id="alignment negative"
        ),
        pytest.param(raw_gguf([raw_key("general.alignment", 8, string("32"))]), "alignment", id="alignment is text"),
    ],
)
def test_bad_header_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(content)
    with pytest.raises(CorruptFile, match=message) as error:
        read_gguf(path)
    assert error.value.path == str(path)


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        pytest.param([raw_tensor("t", [8], n=99)], "number of dimensions at byte 33", id="99 dimensions"),
        pytest.param([raw_tensor("t", [], n=0)], "number of dimensions", id="no dimensions"),
        pytest.param([raw_tensor("t", [8, 0])], "dimensions at byte 33", id="a dimension of 0"),
        pytest.param([raw_tensor("t", [2**63, 2**63, 4])], "data run past the end", id="product beyond 64 bits"),
        pytest.param([raw_tensor("t", [2**62])], "data run past the end", id="size wraps to 0 in 64 bits"),
        pytest.param([raw_tensor("t", [33])], "data run past the end of the file at byte 64", id="4 bytes too many"),
        pytest.param([raw_tensor("t", [8], 0, 2**63)], "data run past the end", id="offset beyond the file"),
        pytest.param([raw_tensor("t", [8], 0, 2**64 - 32)], "data run past the end", id="offset near 2^64"),
        pytest.param([raw_tensor("t", [8], 0, 4)], "the data offset at byte 33", id="offset not aligned"),
        pytest.param([raw_tensor("t", [16], 2)], "rows of a multiple of 32 elements", id="half a block in a row"),
        pytest.param([raw_tensor("a", [8], 0, 64), raw_tensor("t", [8], 0, 64)], "overlap those of a", id="same data"),
        pytest.param([raw_tensor("t", [8], 0, 32), raw_tensor("a", [16])], "overlap those of a", id="overlap"),
        pytest.param(
            [raw_tensor("t", [8]), raw_tensor("t", [8], 0, 32)], "a second tensor of that name", id="name twice"
        ),
    ],
)
def test_bad_tensor_is_refused_by_name(tmp_path: Path, tensors: list[bytes], message: str) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(raw_gguf([], tensors, F32_DATA))
    with pytest.raises(CorruptFile, match=message) as error:
        read_gguf(path)
    assert (error.value.path, error.value.tensor) == (str(path), "t")


@pytest.mark.parametrize("kind", [4, 5, 200, 2**32 - 1])
def test_unknown_tensor_type_is_unsupported(tmp_path: Path, kind: int) -> None:
    path = tmp_path / "odd.gguf"
    path.write_bytes(raw_gguf([], [raw_tensor("t", [32], kind)], F32_DATA))
    with pytest.raises(UnsupportedQuantization, match=f"GGML type {kind} is not supported") as error:
        read_gguf(path)
    assert error.value.tensor == "t"


@pytest.mark.parametrize("architecture", [None, raw_key("general.architecture", 4, u32(7))])
def test_architecture_must_be_named(tmp_path: Path, architecture: bytes | None) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(raw_gguf([architecture] if architecture else []))
    with pytest.raises(CorruptFile, match=r"general\.architecture"):
        open_checkpoint(path)


def test_truncation_anywhere_is_refused(small: Path) -> None:
    whole = small.read_bytes()
    for size in range(0, len(whole) - 31, 3):  # the last tensor may be padded
        small.write_bytes(whole[:size])
        with pytest.raises(CorruptFile) as error:
            open_checkpoint(small)
        assert error.value.path == str(small)


def test_truncated_data_name_the_tensor(small: Path) -> None:
    small.write_bytes(small.read_bytes()[:-200])
    with pytest.raises(CorruptFile, match="download it again") as error:
        open_checkpoint(small)
    assert error.value.tensor == "output_norm.weight"


@pytest.mark.parametrize("word", [0, 1, 0x7F, 0xFF, 0x80000000, 0xFFFFFFFF])
def test_header_words_replaced_end_in_success_or_a_clear_error(small: Path, word: int) -> None:
    whole = small.read_bytes()
    header = whole.index(b"output_norm.weight") + 64
    for position in range(0, header, 3):
        small.write_bytes(whole[:position] + u32(word) + whole[position + 4 :])
        opens_or_refuses(small)


def test_random_damage_ends_in_success_or_a_clear_error(small: Path) -> None:
    whole = small.read_bytes()
    header = whole.index(b"output_norm.weight") + 64
    rng = np.random.default_rng(4)
    opened = 0
    for _ in range(500):
        damaged = bytearray(whole)
        for position in rng.integers(0, header, rng.integers(1, 4)):
            damaged[position] = rng.integers(0, 256)
        if rng.random() < 0.2:
            cut = int(rng.integers(0, header))
            del damaged[cut : cut + int(rng.integers(1, 16))]
        small.write_bytes(damaged)
        opened += opens_or_refuses(small)
    assert 0 < opened < 400


def opens_or_refuses(path: Path) -> bool:
    """Whether the file opens; any exception but a FerruleError fails the test, and so does data outside the file."""
    try:
        checkpoint = open_checkpoint(path)
    except FerruleError as error:
        assert str(path) in str(error)
        return False
    for tensor in checkpoint.tensors.values():
        tensor.data.sum()
    return True
