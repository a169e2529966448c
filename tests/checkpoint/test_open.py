"""What a name given by a user resolves to, and what is said where it resolves to nothing."""

import json
from pathlib import Path

import numpy as np
import pytest
from checkpoint_files import LLAMA, write_directory, write_gguf
from huggingface_hub import constants

from ferrule.checkpoint import open_checkpoint, packages
from ferrule.checkpoint.packages import ModelPackage
from ferrule.errors import CorruptFile, ModelNotFound


@pytest.fixture(autouse=True)
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "no-hub-cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)


def test_gguf_file_and_its_directory_are_the_same_model(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf")
    write_gguf(tmp_path / "mmproj-m.gguf", architecture="clip")
    assert open_checkpoint(path).path == open_checkpoint(str(path)).path == open_checkpoint(tmp_path).path == path


def test_gguf_needs_no_particular_name(tmp_path: Path) -> None:
    assert open_checkpoint(write_gguf(tmp_path / "weights.bin")).container == "gguf"


def test_directory_with_one_split_set_opens(tmp_path: Path) -> None:
    tensors = {f"t{i}": (np.zeros(32, np.float32), None) for i in range(3)}
    write_gguf(tmp_path / "m.gguf", LLAMA, tensors, split_max_tensors=1)
    assert len(open_checkpoint(tmp_path).tensors) == 3


def test_directory_with_safetensors_and_gguf_is_a_safetensors_model(tmp_path: Path) -> None:
    write_gguf(tmp_path / "m.gguf")
    write_directory(tmp_path, {"model.safetensors": {"t": np.ones(4, np.float32)}})
    assert open_checkpoint(tmp_path).container == "safetensors"


def test_directory_with_several_gguf_files_lists_them(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_gguf(tmp_path / f"{name}.gguf")
    with pytest.raises(ModelNotFound, match=r"Name one of: a\.gguf, b\.gguf"):
        open_checkpoint(tmp_path)


def test_none_is_the_installed_model_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "carrier").mkdir()
    path = write_gguf(tmp_path / "carrier" / "m.gguf")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(packages, "PACKAGES", (ModelPackage("C", "carrier", "m.gguf", (("carrier", "m.gguf"),)),))
    assert open_checkpoint(None).path == path


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "model.safetensors.index.json"])
def test_one_file_of_a_directory_says_to_give_the_directory(tmp_path: Path, name: str) -> None:
    write_directory(tmp_path, {"model.safetensors": {"t": np.ones(4, np.float32)}})
    (tmp_path / name).touch()
    with pytest.raises(ModelNotFound, match=f"Give its directory: {tmp_path}"):
        open_checkpoint(tmp_path / name)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n", "git-lfs pointer.*Run `git lfs pull`"),
        (b"\n<!DOCTYPE html><html>", "a web page.*Download the file itself"),
        (b"<html><body>404</body></html>", "a web page"),
        (b"PK\x03\x04" + bytes(60), "archive.*Convert it to safetensors"),
        (b"\x80\x02}q\x00.", "pickled PyTorch file.*Convert it to safetensors"),
        (b"tjgg\x03\0\0\0", "of the time before GGUF.*Convert it to GGUF"),
        (b"FUGG\x03\0\0\0", "expected b'GGUF'; found b'FUGG'"),
        (b"GG", "expected b'GGUF'"),
    ],
    ids=repr,
)
def test_file_that_is_no_model_says_what_it_is(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "m.gguf").write_bytes(content)
    with pytest.raises(CorruptFile, match=message) as error:
        open_checkpoint(tmp_path / "m.gguf")
    assert error.value.path == str(tmp_path / "m.gguf")


def test_safetensors_that_is_a_git_lfs_pointer_says_so(tmp_path: Path) -> None:
    write_directory(tmp_path, {"model.safetensors": {}})
    (tmp_path / "model.safetensors").write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n")
    with pytest.raises(CorruptFile, match="git lfs pull"):
        open_checkpoint(tmp_path)


@pytest.mark.parametrize("name", ["smolm2.gguf", "SmolLM2", "sub/other.gguf"])
def test_near_misses_are_suggested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "smollm2").mkdir()
    for known in ("smollm2.gguf", "sub/others.gguf"):
        write_gguf(tmp_path / known)
    monkeypatch.chdir(tmp_path)
    expected = {"smolm2.gguf": "smollm2.gguf", "SmolLM2": "smollm2", "sub/other.gguf": "sub/others.gguf"}[name]
    for given in (name, str(tmp_path / name)):
        with pytest.raises(ModelNotFound, match=f"Did you mean .*{expected}"):
            open_checkpoint(given)


def test_near_miss_is_suggested_for_what_might_be_a_hub_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "models" / "tiny-llama").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelNotFound, match=r"hub model models/tiny-lama: .*Did you mean models/tiny-llama\?"):
        open_checkpoint("models/tiny-lama")


@pytest.mark.parametrize("name", ["nothing-like-it", "no/such/path/at/all", "x" * 5000, "a\0b", "/dev/null"])
def test_name_of_nothing_is_not_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelNotFound, match="A hub model is named org/name"):
        open_checkpoint(name)


def test_a_name_too_long_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "x" * 1000}}))
    with pytest.raises(ModelNotFound, match="cannot be read: File name too long"):
        open_checkpoint(tmp_path)
