"""`ferrule verify`: every op of a model on this machine's devices against the NumPy reference."""

from __future__ import annotations

import sys

import click

from ..checkpoint import open_checkpoint
from ..engine import devices, machine
from ..engine.generation import check_length
from ..engine.kv_cache import cache_dtype
from ..engine.verify import TOLERANCE, compare, first_divergence, trace
from ..tokenizer import load_tokenizer
from . import options


@click.command(short_help="Compare every op with NumPy.", epilog=options.MODEL_HELP)
@click.argument("model", required=False)
@click.option("--backends", metavar="NAMES", default="cpu", show_default=True, help="cpu, metal, or both with a comma.")
@click.option("--target", metavar="NAME", help="CPU instruction set, such as avx2; default: the best.")
@click.option("--prompt", metavar="TEXT", default="The quick brown fox", show_default=True, help="The text to read.")
@click.option(
    "--tolerance",
    type=float,
    metavar="X",
    default=TOLERANCE,
    show_default=True,
    help="Largest relative error of an op.",
)
@options.activation_bits
@options.kv_dtype
@options.adapter
@options.revision
@options.ignored_keys
def verify(
    model: str | None,
    backends: str,
    target: str | None,
    prompt: str,
    tolerance: float,
    activation_bits: int,
    kv_dtype: str,
    adapter: str | None,
    revision: str | None,
    ignore_config_keys: tuple[str, ...],
) -> None:
    """Run MODEL op by op and name the first op whose result is not that of NumPy in float64.

    The prompt is read once, without fusions; the cache is f32 unless another type is named. Results of 8 bits need a
    larger tolerance. The exit status is 1 where something differs.
    """
    targets = []
    for backend in backends.split(","):
        if backend not in ("cpu", "metal"):
            raise click.BadParameter(f"{backend!r} is neither cpu nor metal", param_hint="--backends")
        is_cpu = backend == "cpu"
        targets.append(devices.cpu(target, activation_bits=activation_bits) if is_cpu else devices.gpu())
    checkpoint = open_checkpoint(model, progress=options.show_progress(), revision=revision)
    architecture = options.architecture(checkpoint, adapter, ignore_config_keys)
    graph = architecture.graph
    tokens = load_tokenizer(checkpoint).encode(prompt)
    check_length(tokens, architecture.context)
    dtypes = [cache_dtype(graph, runs_on, "f32" if kv_dtype == "auto" else kv_dtype) for runs_on in targets]
    with options.status() as show:
        expected = trace(graph, tokens, watch=lambda done: show(f"NumPy in float64: {done} of {len(graph.ops)} ops"))
    status = 0
    for runs_on, dtype in zip(targets, dtypes, strict=True):
        comparisons = compare(graph, runs_on, tokens, expected, threads=machine.cores(), kv_dtype=dtype)
        divergence = first_divergence(comparisons, tolerance)
        status = status or int(divergence is not None)
        largest = max(comparison.error for comparison in comparisons)
        found = f"first divergence: {divergence}" if divergence else f"all agree, to a relative error of {largest:.2g}"
        click.echo(f"{runs_on.backend} ({runs_on.name}), {len(comparisons)} ops: {found}")
    if status:
        sys.exit(status)
