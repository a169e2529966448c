"""What the rules of docs/design.md, the layout of the repository and its budgets say, checked on the sources."""

import re
import statistics
from pathlib import Path

import pytest

from ferrule import architectures

ROOT = Path(__file__).parent.parent
FAMILIES = Path(architectures.__file__).parent
PACKAGE = FAMILIES.parent
SHARED = {"__init__", "config", "rope", "weights"}  # files of architectures/ that are no family


def sources(*folders: str) -> list[Path]:
    """Every source file below these folders of the repository."""
    kinds = ("*.py", "*.h", "*.cpp", "*.mm", "*.metal")
    return [path for folder in folders for kind in kinds for path in sorted((ROOT / folder).rglob(kind))]


def lines(path: Path) -> int:
    return len(path.read_text().splitlines())


def test_family_files_are_short() -> None:
    sizes = {name: lines(FAMILIES / f"{name}.py") for name in architectures.families()}
    assert len(sizes) >= 53
    assert statistics.median(sizes.values()) <= 150
    assert {name: n for name, n in sizes.items() if n > 300} == {}


def test_files_are_short() -> None:
    too_long = {str(path): lines(path) for path in sources("python", "csrc", "metal") if lines(path) > 1000}
    assert too_long == {}


# Names of families and of their models, as they would be written in code.
NAMES = sorted(
    {name for module in architectures.families().values() for name in module.MODEL_TYPES}
    | set(architectures.families())
    | {"kimi", "deepseek", "mistral", "qwen", "gemma"}
)


@pytest.mark.parametrize("folder", ["python/ferrule/lowering", "python/ferrule/engine", "csrc"])
def test_no_family_is_named_outside_its_file(folder: str) -> None:
    """Comments may say where maths comes from; code may not ask which family it serves."""
    named = re.compile(rf"(?<![a-z0-9])({'|'.join(NAMES)})(?![a-z])", re.IGNORECASE)
    found = [f"{path}: {match[0]}" for path in sources(folder) for match in named.finditer(code(path))]
    assert found == []


def code(path: Path) -> str:
    """A source without comments and docstrings."""
    text = path.read_text()
    if path.suffix == ".py":
        text = re.sub(r'"""(.|\n)*?"""', "", text)
        return re.sub(r"#.*", "", text)
    return re.sub(r"//.*|/\*(.|\n)*?\*/", "", text)


def test_environment_variables_are_read_in_one_place() -> None:
    reads = re.compile(r"\bos\.environ|\bgetenv\b|NSProcessInfo")
    found = {
        path.relative_to(ROOT).as_posix() for path in sources("python", "csrc", "metal") if reads.search(code(path))
    }
    assert found == {"python/ferrule/settings.py"}
    settings = (PACKAGE / "settings.py").read_text()
    assert re.findall(r'os\.environ\.get\("(\w+)"\)', settings) == ["XDG_CACHE_HOME"]
    assert settings.count("os.environ") == 1


def test_the_readme_shows_the_tree_as_it_is() -> None:
    shown = set(re.findall(r"^(\w+)/ ", (ROOT / "README.md").read_text(), re.M))
    made_by_tools = re.compile(r"\.|__|build|dist$")
    real = {path.name for path in ROOT.iterdir() if path.is_dir() and not made_by_tools.match(path.name)}
    assert shown == real
