"""`ferrule map`: which kernel serves which stage of a model."""

from __future__ import annotations

import json

import click

from .. import lowering
from ..checkpoint import open_checkpoint
from ..engine.kv_cache import cache_dtype
from ..lowering import show
from . import options


@click.command("map", short_help="Print which kernel serves which stage.", epilog=options.MODEL_HELP)
@click.argument("model", required=False)
@click.option(
    "--backend", type=click.Choice(["cpu", "metal"]), default="cpu", show_default=True, help="What to lower for."
)
@click.option("--target", metavar="NAME", help="CPU instruction set or Apple GPU; default: this CPU, or a recent GPU.")
@click.option("--rows", type=click.Choice(["few", "many"]), default="few", help="few: decode (default); many: prefill.")
@options.kv_dtype
@click.option("--fuse/--no-fuse", default=True, help="Whether ops are fused; default: they are.")
@options.adapter
@options.revision
@options.ignored_keys
@options.json_flag
def show_map(
    model: str | None,
    backend: str,
    target: str | None,
    rows: str,
    kv_dtype: str,
    fuse: bool,
    adapter: str | None,
    revision: str | None,
    ignore_config_keys: tuple[str, ...],
    as_json: bool,
) -> None:
    """Print stage by stage which kernel serves MODEL, with types, shapes, parameters and bytes moved.

    Nothing is computed: the map of any Apple GPU can be printed anywhere, that of a CPU on any CPU of its kind.
    """
    chosen = lowering.cpu_target(target) if backend == "cpu" else lowering.metal_target(target)
    checkpoint = open_checkpoint(model, progress=options.show_progress(), revision=revision)
    graph = options.architecture(checkpoint, adapter, ignore_config_keys).graph
    dtype = cache_dtype(graph, chosen, kv_dtype)
    row_class = chosen.row_class(1) if rows == "few" else "many_rows"
    plan = lowering.lower(graph, chosen, row_class, kv_dtype=dtype, fuse=fuse, allow_missing=True)
    click.echo(json.dumps(show.as_json(plan), indent=2) if as_json else show.as_text(plan), nl=as_json)
