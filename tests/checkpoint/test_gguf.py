"""The GGUF reader against files that the `gguf` package writes, and the real models."""

from collections import Counter
from pathlib import Path

import gguf
import numpy as np
import pytest
from checkpoint_files import LLAMA, raw_gguf, raw_key, raw_tensor, string, write_gguf
from gguf import GGMLQuantizationType as Kind

from ferrule.checkpoint import installed_models, open_checkpoint
from ferrule.checkpoint.gguf import read_gguf
from ferrule.errors import CorruptFile, ModelNotFound


def test_metadata_of_every_type_read_back(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "llama")
    integers = {"uint8": 255, "int8": -128, "uint16": 65535, "int16": -32768, "uint32": 2**32 - 1, "int32": -(2**31)}
    integers |= {"uint64": 2**64 - 1, "int64": -(2**63)}
    for kind, value in integers.items():
        getattr(writer, f"add_{kind}")(f"x.{kind}", value)
    writer.add_float32("x.float32", 0.1)
    writer.add_float64("x.float64", 0.1)
    writer.add_bool("x.true", True)
    writer.add_string("x.string", "naïve 🙂")
    writer.add_array("x.strings", ["", "a", "é" * 1000])
    writer.add_array("x.ints", [3, -1, 2])
    writer.add_array("x.floats", [0.5, -1.25])
    writer.add_array("x.bools", [True, False])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    found = read_gguf(tmp_path / "m.gguf").metadata
    expected = {f"x.{kind}": value for kind, value in integers.items()} | {
        "general.architecture": "llama",
        "x.float32": float(np.float32(0.1)),
        "x.float64": 0.1,
        "x.true": True,
        "x.string": "naïve 🙂",
        "x.strings": ["", "a", "é" * 1000],
        "x.ints": [3, -1, 2],
        "x.floats": [0.5, -1.25],
        "x.bools": [True, False],
    }
    assert found == expected
    assert {key: type(value) for key, value in found.items()} == {key: type(value) for key, value in expected.items()}


@pytest.mark.parametrize("alignment", [None, 8, 64, 4096])
def test_tensors_read_back_bit_for_bit(tmp_path: Path, alignment: int | None) -> None:
    rng = np.random.default_rng(1)
    values = rng.standard_normal((3, 5, 256)).astype(np.float32)
    tensors = {
        "f32": (values, None),
        "f16": (values[0].astype(np.float16), None),
        "vector": (values[0, 0, :7].copy(), None),
        **{
            kind.name: (gguf.quantize(values, kind), kind)
            for kind in (Kind.BF16, Kind.Q4_0, Kind.Q4_1, Kind.Q5_0, Kind.Q8_0)
        },
    }
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "llama")
    if alignment:
        writer.add_custom_alignment(alignment)
    for name, (data, kind) in tensors.items():
        writer.add_tensor(name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    found = read_gguf(tmp_path / "m.gguf").tensors
    assert list(found) == list(tensors)
    for name, (data, kind) in tensors.items():
        tensor = found[name]
        assert tensor.name == name
        assert tensor.format == (kind.name if kind else {"float32": "F32", "float16": "F16"}[data.dtype.name])
        assert tensor.shape == (values.shape if kind else data.shape)
        assert tensor.data.tobytes() == data.tobytes()
        assert not tensor.data.flags.writeable


def test_version_2_is_read_like_version_3(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    values = np.arange(8, dtype=np.float32)
    path.write_bytes(raw_gguf([raw_key("a", 8, string("b"))], [raw_tensor("t", [4, 2])], values.tobytes(), version=2))
    found = read_gguf(path)
    assert found.metadata == {"a": "b"}
    assert found.tensors["t"].shape == (2, 4)
    assert np.array_equal(found.tensors["t"].data.view(np.float32), values)


def test_gaps_between_tensors_and_any_order_are_allowed(tmp_path: Path) -> None:
    data = np.arange(32, dtype=np.float32)
    path = tmp_path / "m.gguf"
    path.write_bytes(raw_gguf([], [raw_tensor("b", [8], 0, 96), raw_tensor("a", [8], 0, 0)], data.tobytes()))
    found = read_gguf(path).tensors
    assert list(found) == ["b", "a"]
    assert found["b"].data.tobytes() == data[24:].tobytes()
    assert found["a"].data.tobytes() == data[:8].tobytes()


@pytest.mark.parametrize("member", [1, 2, 3])
def test_any_member_of_a_split_set_finds_all(tmp_path: Path, member: int) -> None:
    tensors = {f"blk.{i}.attn_q.weight": (np.full((4, 32), i, np.float32), None) for i in range(6)}
    write_gguf(tmp_path / "m.gguf", LLAMA, tensors, split_max_tensors=2)
    checkpoint = open_checkpoint(tmp_path / f"m-{member:05}-of-00003.gguf")
    assert checkpoint.path == tmp_path / "m-00001-of-00003.gguf"
    assert checkpoint.config["hidden_size"] == 64
    assert sorted(checkpoint.tensors) == [f"model.layers.{i}.self_attn.q_proj.weight" for i in range(6)]
    for i in range(6):
        assert (checkpoint.tensors[f"model.layers.{i}.self_attn.q_proj.weight"].data.view(np.float32) == i).all()


def test_missing_member_of_a_split_set_is_named(tmp_path: Path) -> None:
    tensors = {f"t{i}": (np.zeros(32, np.float32), None) for i in range(3)}
    write_gguf(tmp_path / "m.gguf", LLAMA, tensors, split_max_tensors=1)
    (tmp_path / "m-00002-of-00003.gguf").unlink()
    with pytest.raises(ModelNotFound, match=r"missing: m-00002-of-00003\.gguf"):
        open_checkpoint(tmp_path / "m-00003-of-00003.gguf")


def test_renamed_member_of_a_split_set_is_refused(tmp_path: Path) -> None:
    tensors = {f"t{i}": (np.zeros(32, np.float32), None) for i in range(2)}
    write_gguf(tmp_path / "m.gguf", LLAMA, tensors, split_max_tensors=1)
    (tmp_path / "m-00001-of-00002.gguf").rename(tmp_path / "model.gguf")
    with pytest.raises(ModelNotFound, match="one of a set of 2"):
        open_checkpoint(tmp_path / "model.gguf")


def test_tensor_in_two_members_is_refused(tmp_path: Path) -> None:
    keys = [raw_key("general.architecture", 8, string("x")), raw_key("split.count", 2, b"\x02\x00")]
    part = raw_gguf(keys, [raw_tensor("a", [8])], bytes(32))
    for i in (1, 2):
        (tmp_path / f"m-0000{i}-of-00002.gguf").write_bytes(part)
    with pytest.raises(CorruptFile, match=r"twice \(tensor a\)"):
        open_checkpoint(tmp_path / "m-00001-of-00002.gguf")


def installed(name: str) -> Path:
    for package in installed_models():
        if package.name == name:
            return package.path(progress=False)
    pytest.skip(f"{name} is not installed")


def test_smollm2_reads_as_the_gguf_package_reads_it() -> None:
    path = installed("SmolLM2-135M-Instruct")
    ours, theirs = read_gguf(path), gguf.GGUFReader(path)
    expected = {key: field for key, field in theirs.fields.items() if not key.startswith("GGUF.")}
    assert list(ours.metadata) == list(expected)
    for key, field in expected.items():
        if len(field.data) < 1000:
            assert ours.metadata[key] == field.contents(), key
        elif field.types[-1] == gguf.GGUFValueType.STRING:
            assert [text.encode() for text in ours.metadata[key]] == [field.parts[i].tobytes() for i in field.data]
        else:
            assert ours.metadata[key] == [field.parts[i][0] for i in field.data]
    assert list(ours.tensors) == [tensor.name for tensor in theirs.tensors]
    for tensor in theirs.tensors:
        found = ours.tensors[tensor.name]
        assert (found.format, found.shape) == (tensor.tensor_type.name, tuple(map(int, reversed(tensor.shape))))
        assert np.array_equal(found.data, tensor.data.reshape(-1).view(np.uint8))


def test_gemma_has_the_contents_it_is_known_for() -> None:
    """The gguf package takes half a minute for this vocabulary: compared with facts read off once instead."""
    path = installed("Gemma 3 270M")
    found = read_gguf(path)
    tokens = found.metadata["tokenizer.ggml.tokens"]
    assert len(tokens) == len(found.metadata["tokenizer.ggml.scores"]) == 262144
    assert (tokens[2], tokens[106], tokens[-1]) == ("<bos>", "<end_of_turn>", "<unused6241>")
    formats = Counter(tensor.format for tensor in found.tensors.values())
    assert formats == {"F32": 109, "Q5_0": 81, "Q4_K": 27, "Q8_0": 10, "Q6_K": 9}
    last = list(found.tensors.values())[-1]
    assert np.array_equal(np.memmap(path, mode="r")[-last.data.nbytes :], last.data)
