"""`ferrule bench`: how fast a model reads and writes, and how near that is to the machine's limits."""

from __future__ import annotations

import json
import statistics
from dataclasses import asdict
from typing import Any

import click

from ..engine import benchmark
from ..engine.benchmark import StageTime, Timing
from ..engine.limits import Limits, measure
from ..engine.work import Work
from ..errors import OptionError
from . import options


@click.command(short_help="Measure speed and shares of the machine's limits.", epilog=options.MODEL_HELP)
@click.argument("model", required=False)
@options.whole_number("-p", "--prompt", default=512, text="Tokens to read.")
@options.whole_number("-n", "--generate", default=64, text="Tokens to write.")
@options.whole_number("-d", "--depth", least=0, default=0, text="Tokens already there.")
@options.whole_number("-s", "--sequences", most=64, default=1, text="Texts to write at once.")
@options.whole_number("-r", "--rounds", default=5, text="Times that each is measured.")
@click.option("--profile", is_flag=True, help="Also show where the time goes, by stage and kernel.")
@options.json_flag
@options.loading
def bench(
    model: str | None,
    prompt: int,
    generate: int,
    depth: int,
    sequences: int,
    rounds: int,
    profile: bool,
    as_json: bool,
    **rest: Any,
) -> None:
    """Measure how fast MODEL reads a prompt and writes tokens.

    Shares are of what this machine reads from memory and computes at most, measured before: a step cannot take less
    than the larger of its two.
    """
    with options.load(model, rest) as m, options.status() as show:
        if (needed := depth + max(prompt, generate)) > m.context:
            raise OptionError("the context is too short", expected=f"at most {m.context} tokens", found=str(needed))
        runner = m.runner
        show("the machine's limits")
        limits = measure(runner.target, runner.threads) if m.device == "cpu" else None
        benchmark.decode(runner, 2, depth=8, rounds=1)  # what a process does only once
        after, at_once = f" after {depth}" if depth else "", f", {sequences} texts" if sequences > 1 else ""
        prefill, decode = f"prefill {prompt}{after}", f"decode {generate}{after}{at_once}"
        show(f"{prefill}: {rounds} rounds")
        timings = {prefill: benchmark.prefill(runner, prompt, depth=depth, rounds=rounds)}
        show(f"{decode}: {rounds} rounds")
        timings[decode] = benchmark.decode(runner, generate, depth=depth, rounds=rounds, sequences=sequences)
        profiles: dict[str, list[StageTime]] = {}
        if profile:
            show("stages and kernels")
            step = min(prompt, runner.max_tokens)
            profiles[f"prefill, a step of {step} tokens"] = benchmark.profile(runner, step, depth=depth, rounds=rounds)
            profiles["decode, a step"] = benchmark.profile(runner, 1, depth=max(depth, 1), rounds=rounds)
        title = f"{m.name} on {runner.target.name}"
        if m.device == "cpu":
            title += f", {runner.threads} threads, {runner.target.activation_bits}-bit activations"
    if as_json:
        found = {
            "model": title,
            "limits": asdict(limits) if limits else None,
            "timings": {name: asdict(timing) for name, timing in timings.items()},
            "profiles": {name: [asdict(stage) for stage in stages] for name, stages in profiles.items()},
        }
        click.echo(json.dumps(found, indent=2))
    else:
        click.echo(_as_text(title, limits, timings, profiles))


def _as_text(
    title: str, limits: Limits | None, timings: dict[str, Timing], profiles: dict[str, list[StageTime]]
) -> str:
    """Tables for people: speeds, then each profile."""
    lines = [title]
    if limits:
        lines.append(
            f"limits of this machine: read {limits.read / 1e9:.1f} GB/s, "
            f"int8 {limits.int8 / 1e9:.0f} GOP/s, float32 {limits.f32 / 1e9:.0f} GFLOP/s"
        )
    shares = ("of memory", "of compute") if limits else ()
    speeds = [(name, *_speeds(timing), *_shares(timing, limits)) for name, timing in timings.items()]
    lines += ["", _table([("", "tokens/s", "fastest", "slowest", *shares), *speeds])]
    for name, stages in profiles.items():
        total = sum(stage.seconds for stage in stages)
        columns = ("stage", "kernel", "launches", "ms", "share", *shares)
        rows = [_stage(stage, total, limits) for stage in stages]
        lines += ["", f"{name}, {total * 1e3:.1f} ms", _table([columns, *rows], left=2)]
    return "\n".join(lines)


def _stage(stage: StageTime, total: float, limits: Limits | None) -> tuple[str, ...]:
    shares = _used(stage.work, stage.seconds, limits)
    milliseconds, share = f"{stage.seconds * 1e3:.2f}", f"{stage.seconds / total:.1%}"
    return stage.stage, stage.kernel, str(stage.launches), milliseconds, share, *shares


def _speeds(timing: Timing) -> list[str]:
    """Tokens per second: median, fastest and slowest round."""
    return [f"{timing.tokens / of(timing.seconds):.1f}" for of in (statistics.median, min, max)]


def _shares(timing: Timing, limits: Limits | None) -> tuple[str, ...]:
    return _used(timing.work, statistics.median(timing.seconds), limits)


def _used(work: Work, seconds: float, limits: Limits | None) -> tuple[str, ...]:
    """Shares of memory bandwidth and of arithmetic that the work took up; none where the limits are not known."""
    if limits is None:
        return ()
    compute = work.int8 / limits.int8 + work.f32 / limits.f32
    return f"{work.bytes / limits.read / seconds:.0%}", f"{compute / seconds:.0%}"


def _table(rows: list[tuple[str, ...]], left: int = 1) -> str:
    """Columns, the first `left` aligned left, the others right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    cells = [
        [
            cell.ljust(width) if i < left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        for row in rows
    ]
    return "\n".join("  ".join(row).rstrip() for row in cells)
