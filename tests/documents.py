"""Documents made from the code: docs/architectures.md and docs/shader-map.md. `python tests/documents.py` writes them.

The one says what each family reads and what shows that it is right, the other which Metal kernels the models of
`docs/maps/` run. Both are compared in the tests.
"""

import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import maps
import tiny_gguf
import tiny_models
from ferrule import _core, architectures
from ferrule.checkpoint.gguf_families import FAMILIES
from ferrule.formats import FORMATS

TESTS = Path(__file__).parent
sys.path.append(str(TESTS / "architectures"))

from test_features import FEATURES  # noqa: E402

DOCS = TESTS.parent / "docs"
CUDA_KERNELS = TESTS / "metal_cuda" / "tested_kernels.txt"
TARGET = "apple9"

ABOUT_ARCHITECTURES = """# Architectures

Made by `python tests/documents.py` from the families' files and the tests; do not edit.

Every family reads safetensors, in float32, bfloat16 and float16. *Goldens* are variants of tiny models in
`tests/data/tiny`, whose logits and greedy tokens transformers computed; those *from GGUF* are in `tests/data/gguf`, as
llama.cpp's converter writes them. The tests, in `tests/golden/test_goldens.py`, are
`test_logits_and_greedy_tokens[VARIANT-...]`, `test_prefill_agrees_however_it_is_cut[...-VARIANT]` and
`test_logits_and_greedy_tokens_from_gguf[VARIANT]`; the graphs alone are tested in
`tests/architectures/test_reference_goldens.py` and `test_gguf_goldens.py`. *Features* are switched off, one at a time,
in `tests/architectures/test_features.py`: the number is how far the largest logit then moves.
"""

ABOUT_SHADERS = """# Metal kernels and architectures

Made by `python tests/documents.py` from `docs/maps`; do not edit.

Evidence: **L**, the kernel passes its tests on Linux, on a stand-in for Apple's framework (`tests/metal`); **C**, it
has passed them on an NVIDIA GPU (`tests/metal_cuda/tested_kernels.txt`). A name with an asterisk is not written yet, or
cannot take a shape of the model. No kernel has run on a Mac.
"""


def architectures_text() -> str:
    """docs/architectures.md."""
    by_family, from_gguf, features = goldens(), _gguf_goldens(), _features()
    out = [ABOUT_ARCHITECTURES]
    for name, module in sorted(architectures.families().items()):
        about = (module.__doc__ or "").split("\n")[0]
        gguf = {
            key: [v for v in variants if v in by_family[name]]
            for key, variants in from_gguf.items()
            if any(v in by_family[name] for v in variants)
        }
        known = {key for key, family in FAMILIES.items() if family.model_type in module.MODEL_TYPES}
        out += [f"## {name}", "", about, ""]
        out.append(f"- model types: {_code(module.MODEL_TYPES)}; classes: {_code(module.ARCHITECTURES)}")
        out.append(
            f"- containers: safetensors{', GGUF: ' if gguf or known else ''}{_code(sorted(gguf.keys() | known))}"
        )
        out.append(f"- goldens: {', '.join(by_family[name])}")
        if gguf:
            out.append(f"- goldens from GGUF: {', '.join(sorted(v for variants in gguf.values() for v in variants))}")
        if features[name]:
            out.append("- features: " + "; ".join(features[name]))
        out.append("")
    return "\n".join(out)


def _family_of(variant: str) -> str:
    return architectures.find_family(tiny_models.description(variant)["config"], "")[0]


def goldens() -> dict[str, list[str]]:
    """Family -> variants."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for variant in tiny_models.variants():
        found[_family_of(variant)].append(variant)
    return found


def _gguf_goldens() -> dict[str, list[str]]:
    """GGUF architecture -> variants, as their files say."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for variant in tiny_gguf.variants():
        if variant not in tiny_gguf.UNTOLD:
            with np.load(tiny_gguf.DATA / f"{variant}.npz") as arrays:
                header = arrays["header"].tobytes()
            begin = header.index(b"general.architecture") + len(b"general.architecture") + 4  # a type, then a string
            size = int.from_bytes(header[begin : begin + 8], "little")
            found[header[begin + 8 : begin + 8 + size].decode()].append(variant)
    return found


def _features() -> dict[str, list[str]]:
    """Family -> what its features are worth."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for feature, variant, _, moves in FEATURES:
        found[_family_of(variant)].append(f"{feature} ({variant}, {moves:g})")
    return found


@dataclass
class Plan:
    """What a map of one row class says: layers, launches in them, kernels, those missing, bytes per token."""

    layers: int = 0
    layer_launches: int = 0
    launches: int = 0
    bytes_per_token: str = ""
    kernels: dict[str, None] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)


def plans() -> Iterator[tuple[str, str, dict[str, Plan]]]:
    """(model, family, row class -> plan) of every committed map of the target."""
    for path in sorted(maps.MAPS.glob(f"*.{TARGET}.txt")):
        found: dict[str, Plan] = {}
        for section in re.split(r"\n(?=\S+ \(\S+\): target )", path.read_text()):
            title, header, *lines = section.splitlines()
            match = re.match(r"(\S+) \((\S+)\): target \S+, (\w+)", title)
            assert match, f"{path.name}: {title}"
            model, family, row_class = match.groups()
            found[row_class] = _plan(lines, slice(header.index("kernel"), header.index("dtype")))
        yield model, family, found


def _plan(lines: list[str], kernel_column: slice) -> Plan:
    plan, times, in_layers = Plan(), 1, False
    for line in lines:
        if line.startswith("-- "):
            repeated = re.search(r"\((\d+) times\)", line)
            times, in_layers = int(repeated[1]) if repeated else 1, "outside" not in line
            plan.layers += times if in_layers else 0
        elif line.startswith(("| ", "  ")):
            kernel, *star = line[kernel_column].split()
            plan.kernels[stem(kernel)] = None
            plan.missing |= {stem(kernel)} if star else set()
            plan.layer_launches += times if in_layers else 0
        elif "per token" in line:
            plan.bytes_per_token = re.findall(r"([\d,]+) (?:bytes )?per token", line)[0]
        elif "launches" in line:
            plan.launches = int(line.split()[0])
    return plan


def stem(kernel: str) -> str:
    """A kernel's name without its format or cache type."""
    formats = "|".join(sorted((name.lower() for name in FORMATS), key=len, reverse=True))
    return re.sub(rf"_({formats})$", "", kernel)


def shader_map_text() -> str:
    """docs/shader-map.md."""
    existing = {stem(kernel) for kernel in _core.metal_kernels()}
    marks = {kernel: _evidence(kernel) for kernel in existing}
    users: defaultdict[str, list[str]] = defaultdict(list)
    rows = []
    for model, family, by_class in plans():
        decode, missing = by_class["one_row"], {k for plan in by_class.values() for k in plan.missing}
        used = dict.fromkeys(kernel for plan in by_class.values() for kernel in plan.kernels)
        cells = [f"{k}\\*" if k in missing else f"{k} {marks[k]}" for k in sorted(used)]
        for kernel in used:
            users[kernel] += [family] if family not in users[kernel] else []
        per_layer = f"{decode.layer_launches / decode.layers:.1f}"
        numbers = f"{per_layer} | {decode.launches:,} | {decode.bytes_per_token}"
        rows.append(f"| {family} | {model} | {numbers} | {', '.join(cells)} |")
    complete = sum("\\*" not in row for row in rows)
    out = [ABOUT_SHADERS, "## Architecture → kernels", ""]
    out.append(f"{complete} of the {len(rows)} models have all the kernels that they need, in every row class.")
    out += ["", "| family | model | dispatches per layer, decoding | in all | bytes per token | kernels |"]
    out += ["|---|---|---:|---:|---:|---|", *sorted(rows), "", "## Kernel → architectures", ""]
    out += ["| kernel | Linux | NVIDIA GPU | Mac | families |", "|---|---|---|---|---|"]
    users["sample"] = sorted({family for _, family, _ in plans()})  # plans that draw tokens are not among the maps
    for kernel in sorted(users.keys() | existing):
        linux, cuda = ("yes" if mark in marks.get(kernel, "") else "no" for mark in "LC")
        name = kernel if kernel in existing else f"{kernel}\\*"
        out.append(f"| {name} | {linux} | {cuda} | no | {', '.join(sorted(users[kernel])) or 'none'} |")
    return "\n".join(out) + "\n"


def _evidence(kernel: str) -> str:
    """L where a test of Metal kernels names the kernel, C where it is on the list of those run on an NVIDIA GPU."""
    linux = re.search(rf"[\"']{kernel}(_[{{fqm]|[\"'{{])", _metal_tests())
    return ("L" if linux else "") + ("C" if kernel in CUDA_KERNELS.read_text().split() else "")


def _metal_tests() -> str:
    """The text of all tests of Metal kernels, those of CPU kernels among them that also run on Metal."""
    own = "".join(path.read_text() for path in sorted((TESTS / "metal").glob("test_*.py")))
    shared = {f"{name}.py" for name in re.findall(r"^(?:from|import) (test_\w+)", own, re.M)}
    return own + "".join((TESTS / "kernels" / name).read_text() for name in sorted(shared))


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


DOCUMENTS: dict[str, Callable[[], str]] = {"architectures.md": architectures_text, "shader-map.md": shader_map_text}


if __name__ == "__main__":
    for file, make in DOCUMENTS.items():
        (DOCS / file).write_text(make())
