"""Every barrier is needed: with any one of them removed, the checked kernel is found at fault."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import test_attention as attention
from cache_pools import Pool
from kernel_testing import SIGNATURES
from weights import make_matrix

from ferrule.engine.sampling import DRAW
from metal import test_matmul as matmul
from metal.metal_runner import MetalRunner
from metal.test_attention import run_absorbed
from metal_host.host import SOURCE, MetalFaultError, MetalHost

ROOT = Path(__file__).parents[2]
INSTANCE = re.compile(r'^template \[\[host_name\("(?P<kernel>\w+)"\)\]\] kernel decltype\((?P<template>\w+)<.*;$', re.M)
BARRIER = re.compile(r"^ *(?:metal::)?(?:threadgroup|simdgroup)_barrier\(.*\);$", re.M)


def run_layer_norm(runner: MetalRunner) -> None:
    params = {"width": 640, "groups": 1, "eps": 1e-6, "weight_offset": 0.0, "planes": 0}
    runner.run("layer_norm", {"x": np.ones((1, 640), np.float32)}, params, 1, (1, 640))


def run_matmul(runner: MetalRunner) -> None:
    matrix = make_matrix("Q4_0", 70, 64, np.random.default_rng(0))
    operands = {"x": np.ones((33, 64), np.float32), "weight": matrix.data}
    runner.run("matmul_q4_0", operands, {**matmul.PLAIN, "k": 64, "n": 70}, 33, (33, 70))


def run_expert_matmul(runner: MetalRunner) -> None:
    matrix = make_matrix("Q4_0", 70, 64, np.random.default_rng(0))
    order = np.concatenate([np.arange(40), [0, 0, 32, 0, 32, 40]]).astype(np.uint32)
    operands = {"x": np.ones((40, 64), np.float32), "order": order, "weight": [matrix.data]}
    params = {"k": 64, "n": 70, "experts": 1, "slots": 1, "x_slots": 1, "weighted": 0, "planes": 0}
    runner.run("expert_matmul_q4_0", operands, params, 40, (40, 70))


def run_route(runner: MetalRunner) -> None:
    params = {"experts": 64, "k": 2, "scoring": 0, "normalize": 0, "groups": 2, "top_groups": 1, "group_score": 1}
    params |= {"norm_eps": 0.0, "scale": 1.0, "jitter": 0.0}
    runner.run("route", {"logits": np.arange(64, dtype=np.float32)}, params, 1, (1, 2, 2))


def run_sample(runner: MetalRunner) -> None:
    logits = np.random.default_rng(0).standard_normal((1, 700), np.float32)
    draws = np.array([(0.5, 1.0, 40, 0.0)], DRAW).view(np.uint8)
    written = {"out": ((1,), np.int32)}
    runner.run("sample", {"logits": logits, "draws": draws}, {"width": 700}, 1, written)


def run_attention(runner: MetalRunner) -> None:
    for kv_dtype, head_dim in (("f16", 16), ("f16", 20), ("q8_0", 16)):
        case = attention.Case(2, 1, head_dim, ((60, 20),), v_head_dim=16)
        attention.Problem.make(case, kv_dtype).run(runner)


def run_attention_split(runner: MetalRunner) -> None:
    problem = attention.Problem.make(attention.Case(2, 1, 16, ((150, 1),)), "f16")
    operands: dict[str, Any] = {name: getattr(problem, name) for name in ("q", "spans", "block_table")}
    operands["cache"] = problem.pool.data
    written = {"partials": ((1, 2, 2, 18), np.float32)}
    runner.run("attention_split_f16", operands, {**problem.params, "splits": 2}, 1, written)


def run_absorbed_attention(runner: MetalRunner) -> None:
    case = attention.Case(9, 1, 8, ((70, 1),), v_head_dim=40, latent=True)
    run_absorbed(runner, attention.Problem.make(case, "f16"), 0)


def run_select_positions(runner: MetalRunner) -> None:
    problem = attention.Problem.make(attention.Case(1, 1, 8, ((599, 1),)), "f16")
    operands = {"q": problem.q, "weights": np.ones((1, 1), np.float32), "cache": problem.pool.keys.copy()}
    operands |= {"spans": problem.spans, "block_table": problem.block_table}
    params = {"heads": 1, "head_dim": 8, "top": 3, "scale": 1.0}
    runner.run("select_positions_f16", operands, params, 1, (1, 3))


def run_qkv_prepare(runner: MetalRunner) -> None:
    x = np.ones((1, 1, 40), np.float32)
    operands = {"q": x, "k": x, "v": x, "slots": np.zeros(1, np.int32)}
    operands["cache"] = Pool.make("q8_0", 1, 1, 40, 40).data
    params = dict.fromkeys((name for name, _, _ in SIGNATURES["qkv_prepare"][1]), 0)
    params |= {"heads": 1, "kv_heads": 1, "head_dim": 40, "v_head_dim": 40, "has_k_norm": 1, "has_v_norm": 1}
    table = np.ones((1, 2 * 10), np.float32)
    runner.run("qkv_prepare_q8_0", {**operands, "table": table}, {**params, "n_pairs": 10}, 1, {})


# For each file that is compiled and has barriers, itself or in a header: kernels and a call of them.
RUNS: dict[str, tuple[set[str], Callable[[MetalRunner], None]]] = {
    "layer_norm": ({"layer_norm"}, run_layer_norm),
    "matmul": ({"matmul_q4_0"}, run_matmul),
    "expert_matmul": ({"expert_matmul_q4_0"}, run_expert_matmul),
    "route": ({"route"}, run_route),
    "sample": ({"sample"}, run_sample),
    "attention": ({"attention_f16", "attention_q8_0"}, run_attention),
    "absorbed_attention": ({"absorbed_attention_f16"}, run_absorbed_attention),
    "select_positions": ({"select_positions_f16"}, run_select_positions),
    "attention_split": ({"attention_split_f16"}, run_attention_split),
    "qkv_prepare": ({"qkv_prepare_q8_0"}, run_qkv_prepare),
}


# Headers with barriers, and a file that includes them.
HEADERS = {"moments.h": "layer_norm"}


def source(name: str) -> str:
    return (ROOT / "metal" / name).read_text()


def barriers() -> list[Any]:
    found = []
    for path in sorted((ROOT / "metal").glob("*.*")):
        for barrier in BARRIER.finditer(path.read_text()):
            line = path.read_text().count("\n", 0, barrier.start()) + 1
            found.append(pytest.param(path.name, barrier.span(), id=f"{path.name}:{line}"))
    return found


def build(host: MetalHost, stem: str, directory: Path, changed: dict[str, str]) -> MetalHost:
    """A host whose checked kernels are those of one file, with `changed` files by their names."""
    (directory / "csrc").symlink_to(ROOT / "csrc")
    (directory / "metal").mkdir()
    for header in [*(ROOT / "metal").glob("*.h"), ROOT / "metal" / "formats"]:
        if header.name not in changed:
            (directory / "metal" / header.name).symlink_to(header)
    for name, text in changed.items():
        (directory / "metal" / name).write_text(text)
    kernels, translated = directory / "metal" / f"{stem}.metal", directory / f"{stem}.cpp"
    subprocess.run([sys.executable, SOURCE / "tools" / "translate.py", kernels, "-o", translated], check=True)

    entries = json.loads((host.directory / "compile_commands.json").read_text())
    suffix = f"kernels_checked.dir/kernels/{stem}.cpp.o"
    (command,) = (shlex.split(entry["command"]) for entry in entries if entry["output"].endswith(suffix))
    index = directory / "index.cpp"
    index.write_text(
        f'extern "C" const metal_host::Library metal_host_library_{stem};\n'
        'extern "C" [[gnu::visibility("default")]] const metal_host::Library* const metal_host_libraries[] = '
        f"{{&metal_host_library_{stem}, nullptr}};\n"
    )
    library = directory / "changed.so"
    options = command[: command.index("-o")]  # "-o <object> -c <source>" follows
    link = ["-shared", "-o", library, host.directory / "libmetal_host.so"]
    subprocess.run([*options, translated, index, *link], cwd=host.directory, check=True)
    return MetalHost(host.directory, library)


def only_instances(text: str, kernels: set[str]) -> str:
    """Leaves few instantiations of each kernel template, for the sake of time: those of `kernels`, or the first."""
    instances = list(INSTANCE.finditer(text))
    wanted = {instance["template"] for instance in instances if instance["kernel"] in kernels}
    first = {instance["template"]: instance["kernel"] for instance in reversed(instances)}
    kept = kernels | {kernel for template, kernel in first.items() if template not in wanted}
    for instance in reversed(instances):
        if instance["kernel"] not in kept:
            text = text[: instance.start()] + text[instance.end() :]
    return text


def test_unchanged_kernels_are_not_at_fault(metal_host: MetalHost, tmp_path: Path) -> None:
    for stem, (kernels, run) in RUNS.items():
        directory = tmp_path / stem
        directory.mkdir()
        text = only_instances(source(f"{stem}.metal"), kernels)
        run(MetalRunner(build(metal_host, stem, directory, {f"{stem}.metal": text})))


@pytest.mark.parametrize(("name", "span"), barriers())
def test_removed_barrier(metal_host: MetalHost, tmp_path: Path, name: str, span: tuple[int, int]) -> None:
    stem = HEADERS.get(name, Path(name).stem)
    kernels, run = RUNS[stem]
    text = source(name)
    texts = {f"{stem}.metal": source(f"{stem}.metal"), name: text[: span[0]] + text[span[1] :]}
    texts[f"{stem}.metal"] = only_instances(texts[f"{stem}.metal"], kernels)
    runner = MetalRunner(build(metal_host, stem, tmp_path, texts))
    with pytest.raises(MetalFaultError, match=r"data race|uninitialised|out-of-bounds"):
        run(runner)
