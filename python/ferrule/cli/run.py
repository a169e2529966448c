"""`ferrule run`: continue a text."""

from __future__ import annotations

from typing import Any

import click

from . import options


@click.command()
@click.argument("prompt")
@click.option("-m", "--model", help=options.MODEL_HELP)
@click.option("--chat", "as_chat", is_flag=True, help="Send the prompt as a user's message through the chat template.")
@options.sampling
@options.loading
def run(prompt: str, model: str | None, as_chat: bool, **rest: Any) -> None:
    """Write a continuation of PROMPT ("-" reads it from standard input) to standard output."""
    if prompt == "-":
        prompt = click.get_text_stream("stdin").read()
    loading = {name: rest.pop(name) for name in ("device", "threads", "context", "target")}
    with options.load(model, **loading) as m:
        if not as_chat:
            click.echo(prompt, nl=False)
        text = [{"role": "user", "content": prompt}] if as_chat else prompt
        stream = m.stream_chat(text, **options.given(rest)) if isinstance(text, list) else m.stream(text, **options.given(rest))
        for chunk in stream:
            click.echo(chunk.text, nl=False)
        click.echo()
        click.secho(f"[{m.name}: {stream.timings}, {stream.finish_reason}]", dim=True, err=True)
