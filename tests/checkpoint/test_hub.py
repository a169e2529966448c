"""Hub models without a network: how they are named, which files are chosen, and what the cache gives offline."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import huggingface_hub
import numpy as np
import pytest
from checkpoint_files import LLAMA, write_directory, write_gguf
from huggingface_hub import constants, errors

from ferrule.checkpoint import hub, open_checkpoint
from ferrule.checkpoint.hub import Reference, parse_reference, select
from ferrule.errors import ModelNotFound

COMMIT = "0123456789abcdef0123456789abcdef01234567"
SAFETENSORS = ["config.json", "model.safetensors", "tokenizer.json", "README.md", "consolidated.safetensors"]
SHARDED = ["config.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
GGUFS = ["config.json", "m-Q4_K_M.gguf", "m-Q4_K_S.gguf", "m-Q8_0.gguf", "mmproj-m-F16.gguf"]
SPLIT = ["big/m-Q6_K-00001-of-00002.gguf", "big/m-Q6_K-00002-of-00002.gguf", "m-Q4_0.gguf"]


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("org/name", Reference("org/name")),
        ("HuggingFaceTB/SmolLM2-1.7B_x", Reference("HuggingFaceTB/SmolLM2-1.7B_x")),
        ("org/name:Q4_K_M", Reference("org/name", quant="Q4_K_M")),
        ("org/name/m-Q8_0.gguf", Reference("org/name", file="m-Q8_0.gguf")),
        ("org/name/sub dir/m.gguf", Reference("org/name", file="sub dir/m.gguf")),
        ("name", None),
        ("models/m.gguf", None),
        ("./org/name", None),
        ("../name", None),
        ("~/name", None),
        ("/org/name", None),
        ("org/name/config.json", None),
        ("org/", None),
        ("a b/c", None),
        ("", None),
    ],
)
def test_references(text: str, reference: Reference | None) -> None:
    assert parse_reference(text) == reference


@pytest.mark.parametrize(
    ("reference", "files", "chosen"),
    [
        (Reference("o/n"), SAFETENSORS, ["*.json", "tokenizer.model", "*.jinja", "model.safetensors"]),
        (Reference("o/n"), SHARDED, ["*.json", "tokenizer.model", "*.jinja", *SHARDED[1:]]),
        (Reference("o/n"), ["m.gguf", "README.md", "mmproj.gguf"], ["m.gguf"]),
        (Reference("o/n"), SPLIT[:2], SPLIT[:2]),
        (Reference("o/n", quant="Q4_K_M"), GGUFS, ["m-Q4_K_M.gguf"]),
        (Reference("o/n", quant="q8_0"), GGUFS + SAFETENSORS, ["m-Q8_0.gguf"]),
        (Reference("o/n", quant="Q6_K"), SPLIT, SPLIT[:2]),
        (Reference("o/n", file="m-Q4_0.gguf"), SPLIT, ["m-Q4_0.gguf"]),
        (Reference("o/n", file=SPLIT[1]), SPLIT, SPLIT[:2]),
    ],
)
def test_selection(reference: Reference, files: list[str], chosen: list[str]) -> None:
    assert select(reference, files) == chosen


@pytest.mark.parametrize(
    ("reference", "files", "message"),
    [
        (
            Reference("o/n"),
            GGUFS,
            "3 GGUF files fit. Name one of: o/n/m-Q4_K_M.gguf, o/n/m-Q4_K_S.gguf, o/n/m-Q8_0.gguf",
        ),
        (Reference("o/n", quant="Q4_K"), GGUFS, "no GGUF file is quantised as Q4_K. Name one of: o/n/m-Q4_K_M.gguf"),
        (Reference("o/n", quant="Q8_0"), ["a-Q8_0.gguf", "b-Q8_0.gguf"], "2 GGUF files fit"),
        (Reference("o/n", quant="Q8_0"), SAFETENSORS, "neither config.json with model.safetensors nor a GGUF"),
        (Reference("o/n", file="m-Q8_1.gguf"), GGUFS, "has no file m-Q8_1.gguf. Name one of: o/n/m-Q"),
        (Reference("o/n", file="m.gguf"), [], "The repository has no GGUF file"),
        (Reference("o/n"), ["config.json", "pytorch_model.bin"], "convert it to safetensors"),
        (Reference("o/n"), ["README.md"], "no model that ferrule can read"),
    ],
)
def test_open_choice_is_an_error_that_lists(reference: Reference, files: list[str], message: str) -> None:
    with pytest.raises(ModelNotFound) as error:
        select(reference, files)
    assert message in str(error.value)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty hub cache, and no way to the hub."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return tmp_path


def cached_repo(cache: Path, repo: str) -> Path:
    """The snapshot directory of a repository, laid out as the hub's client does."""
    root = cache / f"models--{repo.replace('/', '--')}"
    (root / "refs").mkdir(parents=True)
    (root / "refs" / "main").write_text(COMMIT)
    snapshot = root / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    return snapshot


def test_cached_safetensors_model_opens_offline(cache: Path) -> None:
    write_directory(cached_repo(cache, "org/name"), {"model.safetensors": {"t": np.ones(4, np.float32)}})
    checkpoint = open_checkpoint("org/name", progress=False)
    assert (checkpoint.container, list(checkpoint.tensors)) == ("safetensors", ["t"])


def test_cached_gguf_opens_offline_by_quantisation_and_by_name(cache: Path) -> None:
    snapshot = cached_repo(cache, "org/name")
    for quant, layers in (("Q4_K_M", 1), ("Q8_0", 2)):
        write_gguf(snapshot / f"m-{quant}.gguf", LLAMA | {"llama.block_count": layers})
    assert open_checkpoint("org/name:Q8_0").config["num_hidden_layers"] == 2
    assert open_checkpoint("org/name/m-Q4_K_M.gguf").config["num_hidden_layers"] == 1
    with pytest.raises(ModelNotFound, match="2 GGUF files fit"):
        open_checkpoint("org/name")


def test_cached_split_gguf_opens_offline(cache: Path) -> None:
    tensors = {f"t{i}": (np.zeros(32, np.float32), None) for i in range(2)}
    write_gguf(cached_repo(cache, "org/name") / "m.gguf", LLAMA, tensors, split_max_tensors=1)
    assert set(open_checkpoint("org/name").tensors) == {"t0", "t1"}


def test_model_that_is_not_cached_says_so_offline(cache: Path) -> None:
    with pytest.raises(ModelNotFound, match="HF_HUB_OFFLINE is set and the model is not in the cache"):
        open_checkpoint("org/name")


def test_revision_is_looked_up(cache: Path) -> None:
    write_directory(cached_repo(cache, "org/name"), {"model.safetensors": {"t": np.ones(4, np.float32)}})
    assert open_checkpoint("org/name", revision=COMMIT).tensors
    with pytest.raises(ModelNotFound):
        open_checkpoint("org/name", revision="other")


def test_environment_is_honoured(tmp_path: Path) -> None:
    """HF_HOME and HF_HUB_OFFLINE are read when the hub's client is imported: a process of its own."""
    write_directory(cached_repo(tmp_path / "hub", "org/name"), {"model.safetensors": {"t": np.ones(4, np.float32)}})
    code = "from ferrule.checkpoint import open_checkpoint as o; print(list(o('org/name').tensors)); o('org/other')"
    environment = os.environ | {
        "HF_HOME": str(tmp_path),
        "HF_HUB_OFFLINE": "1",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    environment.pop("HF_HUB_CACHE", None)
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert result.stdout == "['t']\n"
    assert "ModelNotFound: hub model org/other: HF_HUB_OFFLINE is set" in result.stderr


def test_importing_ferrule_does_not_import_the_hub_client() -> None:
    code = "import sys, ferrule.checkpoint; sys.exit('huggingface_hub' in sys.modules)"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", code], env=environment).returncode == 0


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (errors.GatedRepoError, "access is restricted. Accept its terms on the hub and set HF_TOKEN"),
        (
            errors.RepositoryNotFoundError,
            "there is no such repository. Check the spelling; a private one needs HF_TOKEN",
        ),
        (errors.RevisionNotFoundError, "it has no revision v9"),
        (ConnectionError, "the hub cannot be reached and the model is not in the cache (ConnectionError"),
    ],
)
def test_refusals_of_the_hub_say_what_to_do(
    cache: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Exception], message: str
) -> None:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise kind.__new__(kind)

    monkeypatch.setattr(huggingface_hub.HfApi, "list_repo_files", refuse)
    with pytest.raises(ModelNotFound) as error:
        open_checkpoint("org/name", revision="v9")
    assert message in str(error.value)


def test_unreachable_hub_falls_back_to_the_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise ConnectionError

    monkeypatch.setattr(huggingface_hub.HfApi, "list_repo_files", refuse)
    write_directory(cached_repo(cache, "org/name"), {"model.safetensors": {"t": np.ones(4, np.float32)}})
    assert open_checkpoint("org/name").tensors


@pytest.mark.parametrize("progress", [True, False])
def test_download_asks_for_the_chosen_files_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, progress: bool
) -> None:
    asked: list[Any] = []

    def fetch(repo: str, *, revision: str | None, allow_patterns: list[str]) -> str:
        from huggingface_hub.utils.tqdm import are_progress_bars_disabled

        asked.append((repo, revision, allow_patterns, are_progress_bars_disabled()))
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub.HfApi, "list_repo_files", lambda *_, **__: GGUFS)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    found = hub.download(Reference("o/n", quant="Q8_0"), revision="v1", progress=progress)
    assert found == tmp_path / "m-Q8_0.gguf"
    assert asked == [("o/n", "v1", ["m-Q8_0.gguf"], not progress)]
