"""What runs in the process of `metal_process`, where `device="metal"` is the stand-in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ferrule
from ferrule import _core
from ferrule.architectures import record
from ferrule.checkpoint import open_checkpoint
from ferrule.engine import runner as runner_module
from ferrule.engine.devices import executor, gpu
from ferrule.engine.kv_cache import KVCache, Sequence
from ferrule.engine.program import compile_plan
from ferrule.engine.runner import Runner
from ferrule.engine.step_inputs import Chunk, step_inputs
from ferrule.engine.verify import compare, first_divergence, trace
from ferrule.graph import Graph, Op, Weight
from ferrule.lowering import Plan, lower

choose = import_module("ferrule.lowering.choose")

Tokens = list[int]
Logits = NDArray[np.float32]
Model = Path | Callable[[], Graph]  # a checkpoint, or what makes a graph


def backend() -> str:
    return _core.metal_backend()


def information(path: Path, device: str) -> dict[str, Any]:
    with ferrule.load(path, device=device) as model:
        return model.info()


def logits(path: Path, prompts: list[Tokens], kv_dtype: str = "auto", adapter: Path | None = None) -> list[Logits]:
    with ferrule.load(path, device="metal", kv_dtype=kv_dtype, adapter=adapter) as model:
        return [model.logits(prompt) for prompt in prompts]


def greedy(
    path: Path,
    prompts: list[Tokens],
    n: int,
    kv_dtype: str = "auto",
    context: int = 64,
    adapter: Path | None = None,
) -> list[tuple[int, ...]]:
    with ferrule.load(path, device="metal", context=context, kv_dtype=kv_dtype, adapter=adapter) as model:
        options = {"max_new_tokens": n, "temperature": 0, "ignore_eos": True}
        return [model.generate(prompt, **options).tokens for prompt in prompts]


def sampled(path: Path, prompt: Tokens, n: int, **options: Any) -> tuple[tuple[int, ...], int]:
    """(tokens, blocks of the cache that stay taken) of two texts with the same options, written side by side."""
    with ferrule.load(path, device="metal", context=512) as model:
        streams = [model.stream(prompt, max_new_tokens=n, **options) for _ in range(2)]
        chunks = list(zip(*streams, strict=True))
        tokens = [tuple(t for pair in chunks for t in pair[i].tokens) for i in range(2)]
        assert tokens[0] == tokens[1]
        return tokens[0], model.runner.cache.n_blocks - len(model.runner.cache._free)


def taken_up(path: Path, device: str, parts: list[Tokens], *, reuse: bool) -> list[tuple[Tokens, int]]:
    """(answer, tokens that were read) after each part of a text, answers being left after three chunks."""
    with ferrule.load(path, device=device, context=512) as model, model.sequence() as sequence:
        text, found = list[int](), list[tuple[Tokens, int]]()
        for part in parts:
            text += part
            stream = model.stream(text, sequence=sequence if reuse else None, temperature=0, ignore_eos=True)
            answer = [token for _, chunk in zip(range(3), stream, strict=False) for token in chunk.tokens]
            stream.close()
            text += answer
            found.append((answer, stream.timings.prompt_tokens))
        return found


def _runner(model: Model, positions: int = 128) -> Runner:
    graph = _graph(model)
    cache = KVCache(graph.caches, dtype="f32", positions=positions, states=graph.states)
    return Runner(graph, gpu(), cache, threads=1)


def _graph(model: Model) -> Graph:
    return record(open_checkpoint(model)).graph if isinstance(model, Path) else model()


def long_products() -> Graph:
    """Products whose sums are long enough to be split: gated ones, with a residual, and two side by side.

    Those of the gate are split for up to 32 rows only.
    """
    rng = np.random.default_rng(0)

    def weight(n: int, k: int, dtype: type = np.float16) -> Weight:
        values = (rng.standard_normal((n, k)) * k**-0.5).astype(dtype)
        return Weight("", (n, k), {2: "F16", 4: "F32"}[values.itemsize], values.reshape(-1).view(np.uint8))

    graph = Graph()
    x = graph.embedding(weight(16, 1024))
    gate, up = (graph.linear(x, weight(1088, 1024)) for _ in range(2))
    x = graph.add(x, graph.linear(graph.gated_activation(gate, up, "silu"), weight(1024, 1088)))
    left, right = graph.linear(x, weight(40, 1024)), graph.linear(x, weight(40, 1024, np.float32))
    graph.output = graph.clamped_swiglu(left, right, alpha=1.7, limit=7.0)
    return graph


def small_cache_logits(model: Model, prompt: Tokens) -> Logits:
    """As `logits`, with a cache of 128 positions."""
    return _runner(model).forward([Chunk(Sequence(), prompt, "all")])


def batch(path: Path, prompts: list[Tokens]) -> Logits:
    """All logits of several sequences in one step."""
    return _runner(path).forward([Chunk(Sequence(), prompt, "all") for prompt in prompts])


def in_chunks(path: Path, prompts: list[Tokens], steps: list[list[tuple[int, int, int]]]) -> list[Logits]:
    """All logits of each prompt, (prompt, begin, end) of which a step appends."""
    runner, sequences = _runner(path, 64 * len(prompts)), [Sequence() for _ in prompts]
    logits: list[list[Logits]] = [[] for _ in prompts]
    for step in steps:
        chunks = [Chunk(sequences[i], prompts[i][begin:end], "all", len(prompts[i])) for i, begin, end in step]
        found = runner.forward(chunks)
        for i, begin, end in step:
            logits[i].append(found[: end - begin])
            found = found[end - begin :]
    return [np.concatenate(parts) for parts in logits]


def profiled(path: Path, prompt: Tokens) -> tuple[int, int, Logits]:
    """(launches of a plan, durations that its profile gives, its logits): a command buffer per launch."""
    runner = _runner(path)
    target = runner.target.row_class(len(prompt))
    plan = lower(runner.graph, runner.target, target, logits=target)
    program = compile_plan(plan, executor(runner.target, runner.graph, 1), runner.cache)
    sequence = Sequence()
    runner.cache.grow(sequence, len(prompt))
    step = step_inputs([Chunk(sequence, prompt, "all")])
    inputs = [step.arrays[source.name] for source in plan.inputs]
    out = np.full((len(prompt), runner.vocabulary), np.nan, np.float32)
    durations = program.profile(step.tokens, step.rows, step.sequences, inputs, [out])
    return len(plan.launches), len(durations), out


def without_barrier(model: Model, prompt: Tokens, index: int) -> None:
    """Runs a step whose plan lacks its barrier number `index`."""
    runner = _runner(model)

    def lower_without(*arguments: Any, **options: Any) -> Plan:
        plan = lower(*arguments, **options)
        [launch for launch in plan.launches[1:] if launch.barrier][index].barrier = False
        return plan

    runner_module.lower = lower_without
    try:
        runner.forward([Chunk(Sequence(), prompt, "all")])
    finally:
        runner_module.lower = lower


def barriers(model: Model, tokens: int) -> int:
    """Barriers of a step's plan but for one on its first launch."""
    target = gpu()
    row_class = target.row_class(tokens)
    plan = lower(_graph(model), target, row_class, logits=row_class)
    return sum(launch.barrier for launch in plan.launches[1:])


def divergence(path: Path, prompt: Tokens, *, fault_in_layer: int | None = None) -> str | None:
    """The first divergence of a Metal run; in one layer its gated activation may be given a wrong function."""
    graph = _graph(path)
    expected = trace(graph, prompt)
    row = choose.TABLE["gated_activation"]

    def params(op: Op) -> dict[str, Any]:
        wrong = {"activation": _core.parameter_values()["activation"]["relu"]} if op.layer == fault_in_layer else {}
        return {**row.params(op), **wrong}

    choose.TABLE = {**choose.TABLE, "gated_activation": replace(row, params=params)}
    try:
        found = first_divergence(compare(graph, gpu(), prompt, expected))
    finally:
        choose.TABLE = {**choose.TABLE, "gated_activation": row}
    return str(found) if found else None
