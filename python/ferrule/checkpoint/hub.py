"""Downloads models from the Hugging Face hub into its cache, or finds them there.

`huggingface_hub` does the transfers and honours HF_HOME, HF_TOKEN and HF_HUB_OFFLINE. It is imported only when a hub
model is asked for: that costs more than opening a small model.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import ModelNotFound

_REFERENCE = re.compile(
    r"(?P<repo>[A-Za-z0-9_][\w.-]*/[A-Za-z0-9_][\w.-]*)(?:/(?P<file>[\w./ +-]+\.gguf)|:(?P<quant>[\w.-]+))?"
)
# Beside the weights: config, tokenizer and chat template.
_SIDE_FILES = ["*.json", "tokenizer.model", "*.jinja"]
_SPLIT_SUFFIX = re.compile(r"-\d{5}-of-\d{5}(?=\.gguf$)")


@dataclass(frozen=True)
class Reference:
    """A hub model as a user writes it: `org/name`, `org/name:Q4_K_M` or `org/name/file.gguf`."""

    repo: str
    file: str | None = None
    quant: str | None = None


def parse_reference(text: str) -> Reference | None:
    """The hub model that a string names, or None where it cannot be one."""
    match = _REFERENCE.fullmatch(text)
    if match is None or match["repo"].endswith(".gguf"):
        return None
    return Reference(match["repo"], match["file"], match["quant"])


def download(reference: Reference, *, revision: str | None = None, progress: bool = True) -> Path:
    """Fetches the model and returns its directory or GGUF file (the first of a split set) in the hub cache.

    Raises ModelNotFound where repository, revision or file do not exist, access is refused, the choice among several
    GGUF files is open, or the hub cannot be reached and the cache does not hold the model.
    """
    wanted = select(reference, _list_files(reference.repo, revision))
    root = _snapshot(reference.repo, revision, wanted, progress=progress)
    return root / wanted[0] if wanted[0].endswith(".gguf") else root


def select(reference: Reference, files: Sequence[str]) -> list[str]:
    """The files (or patterns) to fetch out of all that a repository has: a safetensors model or one GGUF (set).

    Raises ModelNotFound where there is none, or several GGUF files to choose from.
    """
    models = [f for f in files if f.endswith(".gguf") and not Path(f).name.startswith("mmproj")]
    if reference.file is not None:
        chosen = [f for f in files if _set_name(f) == _set_name(reference.file)]
        if reference.file not in chosen:
            near = difflib.get_close_matches(reference.file, files, 3)
            raise ModelNotFound(
                f"{reference.repo} has no file {reference.file}", hint=_choices(reference, near or models)
            )
        return sorted(chosen)
    if reference.quant is None and "config.json" in files:
        weights = [f for f in files if re.fullmatch(r"model(-\d+-of-\d+)?\.safetensors", f)]
        if weights:
            return [*_SIDE_FILES, *weights]
    if reference.quant is not None:
        separated = re.compile(rf"(?<![A-Za-z0-9]){re.escape(reference.quant)}(?![A-Za-z0-9_])", re.IGNORECASE)
        chosen = [f for f in models if separated.search(f)]
    else:
        chosen = models
    sets = sorted({_set_name(f) for f in chosen})
    if len(sets) == 1:
        return sorted(chosen)
    if sets or models:
        which = f"{len(sets)} GGUF files fit" if sets else f"no GGUF file is quantised as {reference.quant}"
        raise ModelNotFound(f"{reference.repo}: {which}", hint=_choices(reference, sets or models))
    hint = "It holds neither config.json with model.safetensors nor a GGUF file"
    if any(f.startswith("pytorch_model") for f in files):
        hint = "It holds pytorch_model.bin only: convert it to safetensors, or use a repository that has it so"
    raise ModelNotFound(f"{reference.repo} has no model that ferrule can read", hint=hint)


def _choices(reference: Reference, files: Sequence[str]) -> str:
    named = ", ".join(f"{reference.repo}/{f}" for f in sorted(files))
    return f"Name one of: {named}" if named else "The repository has no GGUF file"


def _set_name(file: str) -> str:
    """The name that all files of a split set share."""
    return _SPLIT_SUFFIX.sub("", file)


def _list_files(repo: str, revision: str | None) -> list[str]:
    from huggingface_hub import HfApi

    try:
        return HfApi().list_repo_files(repo, revision=revision)
    except Exception as error:  # whatever the network library raises: the cache may still hold the model
        files = _cached_files(repo, revision)
        if not files:
            raise _unavailable(repo, revision, error) from error
        return files


def _cached_files(repo: str, revision: str | None) -> list[str]:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        # No pattern matches, so that a snapshot counts as found even if only part of it was ever fetched.
        root = Path(snapshot_download(repo, revision=revision, allow_patterns=[], local_files_only=True))
    except (LocalEntryNotFoundError, HFValidationError):
        return []
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())


def _snapshot(repo: str, revision: str | None, patterns: list[str], *, progress: bool) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.utils.tqdm import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    silence = not progress and not are_progress_bars_disabled()
    if silence:
        disable_progress_bars()
    try:
        return Path(snapshot_download(repo, revision=revision, allow_patterns=patterns))
    except Exception as error:  # as above, and failures of the transfer itself
        raise _unavailable(repo, revision, error) from error
    finally:
        if silence:
            enable_progress_bars()


def _unavailable(repo: str, revision: str | None, error: Exception) -> ModelNotFound:
    from huggingface_hub.errors import (
        GatedRepoError,
        HFValidationError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    if isinstance(error, GatedRepoError):
        reason, hint = "access is restricted", "Accept its terms on the hub and set HF_TOKEN to a token of that account"
    elif isinstance(error, RepositoryNotFoundError | HFValidationError):
        reason, hint = "there is no such repository", "Check the spelling; a private one needs HF_TOKEN"
    elif isinstance(error, RevisionNotFoundError):
        reason, hint = f"it has no revision {revision}", "Name a branch, tag or commit that it has"
    elif isinstance(error, OfflineModeIsEnabled):
        reason = "HF_HUB_OFFLINE is set and the model is not in the cache"
        hint = "Unset it to download, or give a local path"
    else:
        reason = f"the hub cannot be reached and the model is not in the cache ({type(error).__name__}: {error})"
        hint = "Connect to the network once, or give a local path"
    return ModelNotFound(f"hub model {repo}: {reason}", hint=hint)
