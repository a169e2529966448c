"""`ferrule verify`: every op of a model on this machine's devices against the NumPy reference."""

from __future__ import annotations

import sys

import click

from ..checkpoint import open_checkpoint
from ..engine import devices, machine
from ..engine.verify import TOLERANCE, compare, first_divergence, trace
from ..lowering import cpu_target
from ..tokenizer import load_tokenizer
from . import options


@click.command(short_help="Compare every op with NumPy.", epilog=options.MODEL_HELP)
@click.argument("model", required=False)
@click.option("--backends", default="cpu", help="cpu (default), metal, or both with a comma.")
@click.option("--target", metavar="NAME", help="CPU instruction set, such as avx2.")
@click.option("--prompt", metavar="TEXT", default="The quick brown fox", help="The step's tokens.")
@click.option("--tolerance", type=float, metavar="X", default=TOLERANCE, help="Largest relative error of an op.")
@options.adapter
@options.revision
def verify(
    model: str | None,
    backends: str,
    target: str | None,
    prompt: str,
    tolerance: float,
    adapter: str | None,
    revision: str | None,
) -> None:
    """Run MODEL op by op and name the first op whose result is not that of NumPy in float64.

    One step over the prompt, without fusions. The exit status is 1 where something differs.
    """
    targets = []
    for backend in backends.split(","):
        if backend not in ("cpu", "metal"):
            raise click.BadParameter(f"{backend!r} is neither cpu nor metal", param_hint="--backends")
        targets.append(cpu_target(target) if backend == "cpu" else devices.gpu())
    checkpoint = open_checkpoint(model, progress=options.show_progress(), revision=revision)
    graph = options.graph(checkpoint, adapter)
    tokens = load_tokenizer(checkpoint).encode(prompt)
    expected = trace(graph, tokens)
    status = 0
    for runs_on in targets:
        comparisons = compare(graph, runs_on, tokens, expected, threads=machine.cores())
        divergence = first_divergence(comparisons, tolerance)
        status = status or int(divergence is not None)
        largest = max(comparison.error for comparison in comparisons)
        found = f"first divergence: {divergence}" if divergence else f"all agree, to a relative error of {largest:.2g}"
        click.echo(f"{runs_on.backend} ({runs_on.name}), {len(comparisons)} ops: {found}")
    if status:
        sys.exit(status)
