"""`ferrule info`: what a checkpoint is and needs."""

from __future__ import annotations

import json
from typing import Any

import click

from . import options


@click.command()
@click.argument("model", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print plain data.")
@options.loading
def info(model: str | None, as_json: bool, **loading: Any) -> None:
    """Show MODEL's architecture, weight formats, context, tokenizer, end tokens, template and memory needs."""
    with options.load(model, **loading) as m:
        facts = m.info()
    if as_json:
        click.echo(json.dumps(facts, indent=2, ensure_ascii=False))
        return
    width = max(map(len, facts))
    for name, value in facts.items():
        shown = ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else value
        shown = ", ".join(map(str, shown)) if isinstance(shown, list) else shown
        click.echo(f"{name.replace('_', ' '):<{width}}  {'-' if shown is None else shown}")
