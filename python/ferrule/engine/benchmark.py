"""Times a model's steps, whole and launch by launch, beside what they must at least read and compute."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Iterable
from dataclasses import dataclass

from ..graph import CacheLayer
from ..lowering.plan import Launch, Plan
from ..lowering.show import launch_bytes
from .kv_cache import Sequence
from .runner import Runner
from .step_inputs import Chunk

_BF16_RATE = 2  # of processors that multiply bfloat16, to float32


@dataclass(frozen=True)
class Work:
    """What a launch reads and writes, in bytes, and its multiplications and additions of int8 and of float32."""

    bytes: float = 0
    int8: float = 0
    f32: float = 0

    def __add__(self, other: Work) -> Work:
        return Work(self.bytes + other.bytes, self.int8 + other.int8, self.f32 + other.f32)


@dataclass(frozen=True)
class Timing:
    """Seconds of every round of something, and the work of one."""

    tokens: int
    seconds: tuple[float, ...]
    work: Work


@dataclass(frozen=True)
class StageTime:
    """What the launches of one stage and kernel took together in one step."""

    stage: str
    kernel: str
    launches: int
    seconds: float
    work: Work


def prefill(runner: Runner, tokens: int, *, depth: int, rounds: int) -> Timing:
    """Reading `tokens` tokens after `depth` others."""
    seconds = []
    for _ in range(rounds):
        sequence, ids = _sequence(runner, depth), _tokens(runner, tokens)
        started = time.perf_counter()
        _read(runner, sequence, ids)
        seconds.append(time.perf_counter() - started)
        runner.cache.release(sequence)
    steps = [(begin, min(runner.max_tokens, tokens - begin)) for begin in range(0, tokens, runner.max_tokens)]
    work = _total(_step_work(runner.plan(count, 1), count, 1, depth + begin) for begin, count in steps)
    return Timing(tokens, tuple(seconds), work)


def decode(runner: Runner, tokens: int, *, depth: int, rounds: int, sequences: int = 1) -> Timing:
    """Appending `tokens` tokens, one by one, to each of `sequences` texts of `depth` tokens."""
    depth, seconds = max(depth, 1), []
    for _ in range(rounds):
        texts = [_sequence(runner, depth) for _ in range(sequences)]
        ids = _tokens(runner, tokens * sequences)
        started = time.perf_counter()
        for _ in range(tokens):
            runner.forward([Chunk(text, [ids.pop()]) for text in texts])
        seconds.append(time.perf_counter() - started)
        for text in texts:
            runner.cache.release(text)
    plan = runner.plan(sequences, sequences)
    work = _total(_step_work(plan, sequences, sequences, depth + i, sequences) for i in range(tokens))
    return Timing(tokens * sequences, tuple(seconds), work)


def profile(runner: Runner, tokens: int, *, depth: int, rounds: int) -> list[StageTime]:
    """Where the time of one step of `tokens` tokens after `depth` others goes: medians over rounds, longest first."""
    plan = runner.plan(tokens, 1)
    found: dict[tuple[str, str], list[float]] = {}
    for _ in range(rounds):
        sequence, times = _sequence(runner, depth), list[tuple[Launch, int]]()
        runner.forward([Chunk(sequence, _tokens(runner, tokens))], times=times)
        runner.cache.release(sequence)
        step: dict[tuple[str, str], float] = {}
        for launch, nanoseconds in times:
            key = launch.stage, launch.kernel
            step[key] = step.get(key, 0) + nanoseconds / 1e9
        for key, seconds in step.items():
            found.setdefault(key, []).append(seconds)
    stages = []
    for (stage, kernel), rounds_seconds in found.items():
        launches = [launch for launch in plan.launches if (launch.stage, launch.kernel) == (stage, kernel)]
        work = _total(_work(plan, launch, tokens, 1, depth) for launch in launches)
        stages.append(StageTime(stage, kernel, len(launches), statistics.median(rounds_seconds), work))
    return sorted(stages, key=lambda stage: -stage.seconds)


def _tokens(runner: Runner, count: int) -> list[int]:
    """Random ones, so that experts are chosen as in a text."""
    return random.choices(range(runner.vocabulary), k=count)


def _sequence(runner: Runner, depth: int) -> Sequence:
    sequence = Sequence()
    _read(runner, sequence, _tokens(runner, depth))
    return sequence


def _read(runner: Runner, sequence: Sequence, ids: list[int]) -> None:
    for begin in range(0, len(ids), runner.max_tokens):
        runner.forward([Chunk(sequence, ids[begin : begin + runner.max_tokens])])


def _step_work(plan: Plan, tokens: int, rows: int, begin: int, sequences: int = 1) -> Work:
    return _total(_work(plan, launch, tokens, rows, begin, sequences) for launch in plan.launches)


def _total(works: Iterable[Work]) -> Work:
    return sum(works, Work())


def _work(plan: Plan, launch: Launch, tokens: int, rows: int, begin: int, sequences: int = 1) -> Work:
    """Of one launch in a step of `tokens` tokens, equally many of each sequence, at positions `begin` and up.

    The logits of `rows` rows are wanted.
    """
    count = tokens if launch.rows == "tokens" else rows
    moved, params = launch_bytes(plan, launch, count), launch.params
    if launch.op in ("matmul", "linears", "expert_linear"):
        columns = sum(params.get(name, 0) for name in ("n", "n_b", "n_c"))
        products = 2.0 * count * params["k"] * columns * params.get("slots", 1)
        planes = params.get("planes", 0)
        if planes:
            return Work(moved, products * planes, 0)
        return Work(moved, 0, products / (_BF16_RATE if launch.kernel.endswith("_rounded") else 1))
    cache = launch.operands.get("cache")
    if launch.op in ("attention", "attention_split") and isinstance(cache, CacheLayer):
        length = tokens // sequences
        within = min(params["window"] or params["chunk"] or begin + length, begin + length)
        seen = min(begin + (length + 1) / 2, within)  # on average
        width = cache.head_dim + cache.v_head_dim * (2 if cache.kind == "latent" else 1)
        history = sequences * (within - min(within, length)) * launch_bytes(plan, launch, 1, only=cache)
        products = 2.0 * count * seen * params["heads"] * width
        return Work(moved + history, 0, products / (_BF16_RATE if plan.kv_dtype == "bf16" else 1))
    return Work(moved)
