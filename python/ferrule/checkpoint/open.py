"""From what a user names to a checkpoint: a GGUF file, a directory, or a hub model."""

from __future__ import annotations

import difflib
from pathlib import Path

from ..errors import ModelNotFound
from . import hub
from .base import Checkpoint
from .gguf import open_gguf, split_set
from .packages import default_model
from .safetensors import open_safetensors


def open_checkpoint(
    path_or_repo: str | Path | None, *, progress: bool = True, revision: str | None = None
) -> Checkpoint:
    """Opens a model; weights stay in the mapped files.

    `path_or_repo` is a GGUF file (of a split set any member), a directory with config.json and safetensors or with one
    GGUF, or a hub model: `org/name`, `org/name:Q4_K_M`, `org/name/file.gguf`, of which `revision` is a branch, tag or
    commit. A local path wins over a hub model of the same name; None is the preferred installed model package.
    `progress` shows downloads.

    Raises ModelNotFound, CorruptFile or UnsupportedQuantization.
    """
    if path_or_repo is None:
        return open_gguf(default_model(progress=progress))
    path = Path(path_or_repo).expanduser()
    if _exists(path):
        return _open(path)
    similar = _similar_names(path)
    reference = hub.parse_reference(str(path_or_repo))
    if reference is None:
        raise ModelNotFound("no such file or directory", path=path, hint=similar or "A hub model is named org/name")
    try:
        found = hub.download(reference, revision=revision, progress=progress)
    except ModelNotFound as error:
        if similar is None:
            raise
        raise ModelNotFound(f"no local file or directory, and {error}", path=path, hint=similar) from error
    return _open(found)


def _open(path: Path) -> Checkpoint:
    try:
        return _open_directory(path) if path.is_dir() else _open_file(path)
    except OSError as error:  # of files beside the weights, or directories
        raise ModelNotFound(f"{error.filename} cannot be read: {error.strerror}", path=path) from error


def _exists(path: Path) -> bool:
    try:
        return path.is_file() or path.is_dir()
    except OSError:  # no name that a file could have, such as one that is too long
        return False


def _open_file(path: Path) -> Checkpoint:
    if path.suffix in (".safetensors", ".json"):
        raise ModelNotFound(
            "this is one file of a Hugging Face checkpoint",
            path=path,
            hint=f"Give its directory: {path.absolute().parent}",
        )
    return open_gguf(path)


def _open_directory(directory: Path) -> Checkpoint:
    ggufs = sorted(path for path in directory.glob("*.gguf") if not path.name.startswith("mmproj"))
    if not ggufs or any(directory.glob("model*.safetensors*")):
        return open_safetensors(directory)
    members = split_set(ggufs[0])
    if set(ggufs) - set(members):
        raise ModelNotFound(
            f"the directory holds {len(ggufs)} GGUF files",
            path=directory,
            hint=f"Name one of: {', '.join(path.name for path in ggufs)}",
        )
    return open_gguf(ggufs[0])


def _similar_names(path: Path) -> str | None:
    """Says which neighbours of a path that does not exist are called nearly the same."""
    try:
        neighbours = {p.name.lower(): p for p in path.parent.iterdir() if p.is_dir() or p.suffix == ".gguf"}
    except OSError:
        return None
    near = difflib.get_close_matches(path.name.lower(), neighbours, 3)
    return f"Did you mean {' or '.join(str(neighbours[name]) for name in near)}?" if near else None
