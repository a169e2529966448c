"""Opening model files: mapping them, and saying what a file is that turns out to hold no weights ferrule can read."""

from __future__ import annotations

import mmap
from pathlib import Path

from ..errors import CorruptFile, ModelNotFound

_TO_GGUF = "Convert it to GGUF with a current converter, or get a GGUF file of the model"
_TO_SAFETENSORS = "Convert it to safetensors (load it with transformers and call save_pretrained)"

# First bytes (lower case) -> what the file is, what to do.
_FOREIGN = {
    b"version https://git-lfs": ("a git-lfs pointer, not the file itself", "Run `git lfs pull` where it was cloned"),
    b"<!doctype html": ("a web page, not a model", "Download the file itself, not the page about it"),
    b"<html": ("a web page, not a model", "Download the file itself, not the page about it"),
    b"pk\x03\x04": ("a PyTorch or zip archive", _TO_SAFETENSORS),
    b"\x80\x02": ("a pickled PyTorch file", _TO_SAFETENSORS),
    b"lmgg": ("a GGML file of the time before GGUF", _TO_GGUF),
    b"tjgg": ("a GGML file of the time before GGUF", _TO_GGUF),
    b"fmgg": ("a GGML file of the time before GGUF", _TO_GGUF),
}


def map_file(path: Path) -> mmap.mmap:
    """The whole file, mapped read-only.

    Raises ModelNotFound where it cannot be opened, CorruptFile where it is empty.
    """
    try:
        with path.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except ValueError as error:
        raise CorruptFile("the file is empty", path=path, hint="Download it again") from error
    except OSError as error:
        raise ModelNotFound(f"the file cannot be opened: {error.strerror}", path=path) from error


def refuse_foreign(path: Path, buffer: mmap.mmap, *, expected: str) -> None:
    """Raises CorruptFile where a file that is not the `expected` kind begins like one of a kind that is known."""
    head = buffer[:64].lstrip().lower()
    for magic, (found, advice) in _FOREIGN.items():
        if head.startswith(magic):
            raise CorruptFile(f"this is {found}", path=path, expected=expected, hint=advice)
