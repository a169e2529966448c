"""`ferrule chat`: a conversation in the terminal."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import click

from . import options


@click.command(short_help="Talk with a model.", epilog=options.MODEL_HELP)
@click.argument("model", required=False)
@click.option("--system", metavar="TEXT", help="System message that opens the conversation.")
@options.sampling
@options.loading
def chat(model: str | None, system: str | None, **rest: Any) -> None:
    """Talk with MODEL, line by line. An empty line or Ctrl-D ends the conversation, Ctrl-C an answer.

    Each turn reads only what is new in the conversation.
    """
    messages = [{"role": "system", "content": system}] if system else []
    with options.load(model, rest) as m, m.sequence() as sequence:
        chosen = options.given(rest)
        m.stream_chat([*messages, {"role": "user", "content": "Hi"}], **chosen).close()  # an error comes before a line
        click.secho(f"{m.name}. An empty line ends the conversation.", dim=True, err=True)
        while line := _read_line():
            messages.append({"role": "user", "content": line})
            answer = ""
            try:
                stream = m.stream_chat(messages, sequence=sequence, **chosen)
                for chunk in stream:
                    click.echo(chunk.text, nl=False)
                    answer += chunk.text
                if stream.finish_reason == "length":
                    click.secho(" [cut off; see --max-new-tokens and --context]", dim=True, nl=False, err=True)
            except KeyboardInterrupt:
                click.secho(" [stopped]", dim=True, nl=False, err=True)
            click.echo()
            messages.append({"role": "assistant", "content": answer})


def _read_line() -> str:
    """The user's next line; "" at the end."""
    if not sys.stdin.isatty():
        return options.decode(sys.stdin.buffer.readline(), "standard input").rstrip("\r\n")
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401  # gives `input` line editing
    try:
        return input("> ")
    except EOFError:
        return ""
