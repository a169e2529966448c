"""Times a model's steps, whole and launch by launch, beside the work that they are."""

from __future__ import annotations

import random
import statistics
import time
from dataclasses import dataclass

from ..lowering.plan import Launch
from .kv_cache import Sequence
from .runner import Runner
from .step_inputs import Chunk
from .work import StepSizes, Work, launch_work, step_work, total


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
    work = total(step_work(runner.plan(count, 1), StepSizes(count, begin=depth + begin)) for begin, count in steps)
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
    work = total(step_work(plan, StepSizes(sequences, sequences, depth + i, sequences)) for i in range(tokens))
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
        work = total(launch_work(plan, launch, StepSizes(tokens, begin=depth)) for launch in launches)
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
