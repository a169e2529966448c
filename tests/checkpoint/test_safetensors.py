"""The safetensors reader against files that the `safetensors` package writes."""

import json
from pathlib import Path

import numpy as np
import pytest
from checkpoint_files import CONFIG, raw_safetensors, write_directory

from ferrule.checkpoint import open_checkpoint
from ferrule.checkpoint.safetensors import read_safetensors
from ferrule.errors import CorruptFile, FerruleError, ModelNotFound, UnsupportedQuantization

VALUES = np.random.default_rng(2).standard_normal((5, 16)).astype(np.float32)
TENSORS = {"a": VALUES, "b": VALUES[0].astype(np.float16), "c": np.zeros((0, 4), np.float32), "d": VALUES[:2]}


def entry(dtype: str = "F32", shape: object = (4,), offsets: object = (0, 16)) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def test_tensors_read_back_bit_for_bit(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(write_directory(tmp_path, {"model.safetensors": TENSORS}))
    assert (checkpoint.container, checkpoint.path) == ("safetensors", tmp_path)
    assert checkpoint.config == CONFIG
    assert checkpoint.generation_config == {} == checkpoint.metadata
    assert set(checkpoint.tensors) == set(TENSORS)
    for name, values in TENSORS.items():
        found = checkpoint.tensors[name]
        assert (found.name, found.shape) == (name, values.shape)
        assert found.format == {"float32": "F32", "float16": "F16"}[values.dtype.name]
        assert found.data.tobytes() == values.tobytes()
        assert not found.data.flags.writeable


def test_bfloat16_stays_bfloat16(tmp_path: Path) -> None:
    words = (VALUES[0].view(np.uint32) >> 16).astype(np.uint16)
    path = tmp_path / "model.safetensors"
    path.write_bytes(
        raw_safetensors({"__metadata__": {"format": "pt"}, "t": entry("BF16", [4, 4], [0, 32])}, words.tobytes())
    )
    found = read_safetensors(path)
    assert list(found) == ["t"]
    assert (found["t"].format, found["t"].shape) == ("BF16", (4, 4))
    assert found["t"].data.tobytes() == words.tobytes()


@pytest.mark.parametrize("padding", range(8))
def test_elements_are_aligned_in_memory_whatever_the_header_length(tmp_path: Path, padding: int) -> None:
    header = json.dumps({"t": entry()}).encode() + b" " * padding
    (tmp_path / "model.safetensors").write_bytes(raw_safetensors(header, VALUES[0, :4].tobytes()))
    data = read_safetensors(tmp_path / "model.safetensors")["t"].data
    assert data.ctypes.data % 4 == 0
    assert np.array_equal(data.view(np.float32), VALUES[0, :4])


def test_shards_are_read_through_their_index(tmp_path: Path) -> None:
    shards = {f"model-0000{i}-of-00002.safetensors": {f"t{i}": VALUES + i} for i in (1, 2)}
    write_directory(tmp_path, shards)
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [1, 2]}')
    checkpoint = open_checkpoint(tmp_path)
    assert checkpoint.generation_config == {"eos_token_id": [1, 2]}
    assert set(checkpoint.tensors) == {"t1", "t2"}
    for i in (1, 2):
        assert checkpoint.tensors[f"t{i}"].data.tobytes() == (VALUES + i).tobytes()


def test_missing_shard_is_named(tmp_path: Path) -> None:
    write_directory(tmp_path, {f"model-0000{i}-of-00002.safetensors": {f"t{i}": VALUES} for i in (1, 2)})
    (tmp_path / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(ModelNotFound, match=r"model-00002-of-00002\.safetensors is missing"):
        open_checkpoint(tmp_path)


@pytest.mark.parametrize(
    ("weight_map", "message"),
    [
        ({"t1": "a.safetensors"}, r"the index places it in None \(tensor t2\)"),
        ({"t1": "a.safetensors", "t2": "b.safetensors"}, r"the index places it in b\.safetensors \(tensor t2\)"),
        ({"t1": "a.safetensors", "t2": "a.safetensors", "t3": "a.safetensors"}, r"not in its shard \(tensor t3\)"),
        ({"t1": "../a.safetensors"}, "outside the directory"),
        ({"t1": "/etc/passwd"}, "outside the directory"),
        ({"t1": 3}, "weight_map"),
        (None, "weight_map"),
    ],
    ids=repr,
)
def test_index_that_contradicts_its_shards_is_refused(tmp_path: Path, weight_map: object, message: str) -> None:
    write_directory(tmp_path, {"a.safetensors": {"t1": VALUES, "t2": VALUES}})
    write_directory(tmp_path, {"b.safetensors": {"t9": VALUES}})
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    with pytest.raises(CorruptFile, match=message):
        open_checkpoint(tmp_path)


@pytest.mark.parametrize("dtype", ["F64", "I64", "U8", "BOOL", "F8_E4M3", "whatever"])
def test_unsupported_dtype_names_the_tensor(tmp_path: Path, dtype: str) -> None:
    (tmp_path / "model.safetensors").write_bytes(raw_safetensors({"odd": entry(dtype)}, bytes(16)))
    with pytest.raises(UnsupportedQuantization) as error:
        read_safetensors(tmp_path / "model.safetensors")
    assert (error.value.tensor, error.value.found) == ("odd", dtype)


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("method", ["gptq", "awq", "bitsandbytes", "fp8", "compressed-tensors"])
def test_quantised_checkpoint_is_refused_by_method(tmp_path: Path, method: str, nested: bool) -> None:
    quantised = {"quantization_config": {"quant_method": method}}
    write_directory(tmp_path, {"model.safetensors": TENSORS}, {"text_config": quantised} if nested else quantised)
    with pytest.raises(UnsupportedQuantization, match=method):
        open_checkpoint(tmp_path)


@pytest.mark.parametrize(
    ("header", "data", "tensor"),
    [
        pytest.param({"t": entry(offsets=[0, 16])}, bytes(15), "t", id="data past the end"),
        pytest.param({"t": entry(offsets=[16, 0])}, bytes(16), "t", id="end before begin"),
        pytest.param({"t": entry(offsets=[-16, 0])}, bytes(16), "t", id="negative offset"),
        pytest.param({"t": entry(offsets=[2**63, 2**63 + 16])}, bytes(16), "t", id="huge offset"),
        pytest.param({"t": entry(offsets=[0, 16, 32])}, bytes(16), "t", id="three offsets"),
        pytest.param({"t": entry(offsets=["0", 16])}, bytes(16), "t", id="offset is text"),
        pytest.param({"t": entry(offsets=[0, 16.0])}, bytes(16), "t", id="offset is a float"),
        pytest.param({"t": entry(shape=[5])}, bytes(16), "t", id="shape too large"),
        pytest.param({"t": entry(shape=[3])}, bytes(16), "t", id="shape too small"),
        pytest.param({"t": entry(shape=[2**62, 4])}, bytes(16), "t", id="product beyond 64 bits"),
        pytest.param({"t": entry(shape=[True, 4])}, bytes(16), "t", id="boolean dimension"),
        pytest.param({"t": entry(shape=[-2, -2])}, bytes(16), "t", id="negative dimensions"),
        pytest.param({"t": entry(shape=[1] * 100000 + [4])}, bytes(16), "t", id="many dimensions"),
        pytest.param({"t": entry(shape=4)}, bytes(16), "t", id="shape is a number"),
        pytest.param({"t": entry(dtype=None)}, bytes(16), "t", id="no dtype"),
        pytest.param({"t": [1, 2]}, bytes(16), "t", id="entry is a list"),
        pytest.param({"a": entry(), "b": entry(offsets=[8, 24])}, bytes(24), "b", id="overlap"),
        pytest.param({"a": entry(), "b": entry()}, bytes(16), "b", id="the same data twice"),
        pytest.param({"a": entry(), "b": entry(offsets=[20, 36])}, bytes(36), "b", id="gap"),
        pytest.param({"a": entry()}, bytes(20), None, id="data after the last tensor"),
        pytest.param([1, 2], b"", None, id="header is a list"),
        pytest.param(b"{", b"", None, id="header cut short"),
        pytest.param(b'{"a": {}, "a": {}}', b"", None, id="a name twice"),
        pytest.param(b"[" * 100000, b"", None, id="nested beyond the stack"),
        pytest.param(b'{"a": ' + b"9" * 5000 + b"}", b"", None, id="endless number"),
        pytest.param(b'{"\xff": 1}', b"", None, id="not UTF-8"),
    ],
)
def test_damaged_file_is_refused(tmp_path: Path, header: object, data: bytes, tensor: str | None) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(raw_safetensors(header, data))
    with pytest.raises(CorruptFile) as error:
        read_safetensors(path)
    assert (error.value.path, error.value.tensor) == (str(path), tensor)


@pytest.mark.parametrize("length", [0, 1, 100, 2**32, 2**63, 2**64 - 1])
def test_impossible_header_length_is_refused(tmp_path: Path, length: int) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(raw_safetensors({}, b"", length=length))
    with pytest.raises(CorruptFile, match="header length at byte 0"):
        read_safetensors(path)


def test_truncation_anywhere_is_refused(tmp_path: Path) -> None:
    directory = write_directory(tmp_path, {"model.safetensors": TENSORS})
    path = directory / "model.safetensors"
    whole = path.read_bytes()
    for size in range(0, len(whole), 3):
        path.write_bytes(whole[:size])
        with pytest.raises(CorruptFile):
            read_safetensors(path)


def test_random_damage_ends_in_success_or_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    write_directory(tmp_path, {"model.safetensors": TENSORS})
    whole = path.read_bytes()
    rng = np.random.default_rng(3)
    refused = 0
    for _ in range(400):
        damaged = bytearray(whole)
        for position in rng.integers(0, len(whole) - VALUES.nbytes, rng.integers(1, 4)):
            damaged[position] = rng.integers(0, 256)
        path.write_bytes(damaged)
        try:
            open_checkpoint(tmp_path)
        except FerruleError:
            refused += 1
    assert refused > 200


@pytest.mark.parametrize("text", ["", "[]", "{", "null", "{'a': 1}", '{"a": 1, "a": 2}'])
def test_config_that_is_no_object_is_refused(tmp_path: Path, text: str) -> None:
    write_directory(tmp_path, {"model.safetensors": TENSORS})
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(CorruptFile, match=r"config\.json"):
        open_checkpoint(tmp_path)


def test_missing_config_is_named(tmp_path: Path) -> None:
    write_directory(tmp_path, {"model.safetensors": TENSORS})
    (tmp_path / "config.json").unlink()
    with pytest.raises(ModelNotFound, match=r"config\.json is missing"):
        open_checkpoint(tmp_path)


@pytest.mark.parametrize(
    ("file", "advice"),
    [
        ("pytorch_model.bin", "Convert pytorch_model.bin to safetensors"),
        ("pytorch_model-00001-of-00002.bin", "Convert pytorch_model.bin to safetensors"),
        ("adapter_model.safetensors", "give its base model"),
        ("something.txt", r"Expected model\.safetensors, or model\.safetensors\.index\.json"),
    ],
)
def test_directory_without_safetensors_says_what_to_do(tmp_path: Path, file: str, advice: str) -> None:
    write_directory(tmp_path, {})
    (tmp_path / file).touch()
    with pytest.raises(ModelNotFound, match=advice):
        open_checkpoint(tmp_path)
