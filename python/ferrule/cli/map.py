"""`ferrule map`: which kernel serves which stage of a model."""

from __future__ import annotations

import json

import click


@click.command("map")
@click.argument("model", required=False)
@click.option("--backend", type=click.Choice(["cpu", "metal"]), default="cpu", show_default=True)
@click.option("--target", help="CPU instruction set or Apple GPU family; default: this CPU, or a recent GPU.")
@click.option("--rows", type=click.Choice(["few", "many"]), default="few", show_default=True, help="few: decode; many: prefill.")
@click.option("--kv-dtype", type=click.Choice(["auto", "f32", "f16"]), default="auto", show_default=True)
@click.option("--fuse/--no-fuse", default=True, help="Whether ops are fused.", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print plain data.")
def show_map(model: str | None, backend: str, target: str | None, rows: str, kv_dtype: str, fuse: bool, as_json: bool) -> None:
    """Print stage by stage which kernel serves MODEL, with types, shapes, parameters and bytes moved.

    No weight is computed with and no GPU is needed.
    """
    from .. import lowering
    from ..architectures import record
    from ..checkpoint import open_checkpoint
    from ..engine.kv_cache import cache_dtype
    from ..lowering import show

    chosen = lowering.cpu_target(target) if backend == "cpu" else lowering.metal_target(target)
    graph = record(open_checkpoint(model)).graph
    dtype = cache_dtype(graph) if kv_dtype == "auto" else kv_dtype
    plan = lowering.lower(graph, chosen, "few_rows" if rows == "few" else "many_rows", kv_dtype=dtype, fuse=fuse)
    click.echo(json.dumps(show.as_json(plan), indent=2) if as_json else show.as_text(plan), nl=as_json)
