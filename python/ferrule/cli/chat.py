"""`ferrule chat`: a conversation in the terminal."""

from __future__ import annotations

from typing import Any

import click

from . import options


@click.command()
@click.argument("model", required=False)
@click.option("--system", help="System message that opens the conversation.")
@options.sampling
@options.loading
def chat(model: str | None, system: str | None, **rest: Any) -> None:
    """Talk with MODEL, line by line; an empty line or Ctrl-D ends, Ctrl-C stops an answer."""
    loading = {name: rest.pop(name) for name in ("device", "threads", "context", "target")}
    messages = [{"role": "system", "content": system}] if system else []
    with options.load(model, **loading) as m:
        click.secho(f"{m.name}. An empty line ends the conversation.", dim=True, err=True)
        while line := click.prompt(">", prompt_suffix=" ", default="", show_default=False):
            messages.append({"role": "user", "content": line})
            answer = ""
            try:
                for chunk in m.stream_chat(messages, **options.given(rest)):
                    click.echo(chunk.text, nl=False)
                    answer += chunk.text
            except KeyboardInterrupt:
                click.secho(" [stopped]", dim=True, nl=False)
            click.echo()
            messages.append({"role": "assistant", "content": answer})
