"""`ferrule run`: continue a text."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import click

from ..errors import OptionError
from . import options


@click.command(short_help="Continue a text, or answer it.", epilog=options.MODEL_HELP)
@click.argument("prompt")
@click.option("-m", "--model", metavar="MODEL", help="The model; default: an installed model package.")
@click.option("--chat", "as_chat", is_flag=True, help="Send PROMPT as a user's message through the chat template.")
@options.sampling
@options.loading
def run(prompt: str, model: str | None, as_chat: bool, **rest: Any) -> None:
    """Write PROMPT and its continuation, or with --chat the answer to it.

    "-" reads PROMPT from standard input, without the line end that closes it.
    """
    if model is None and _is_model(prompt):
        raise OptionError(
            "PROMPT is a model",
            path=prompt,
            expected="a text",
            hint=f'`ferrule run -m {shlex.quote(prompt)} "Once upon a time"` continues a text with it',
        )
    if prompt == "-":
        prompt = options.decode(sys.stdin.buffer.read(), "standard input").removesuffix("\n")
    with options.load(model, rest) as m:
        chosen = options.given(rest)
        if as_chat:
            stream = m.stream_chat([{"role": "user", "content": prompt}], **chosen)
        else:
            stream = m.stream(prompt, **chosen)
            click.echo(prompt, nl=False)
        for chunk in stream:
            click.echo(chunk.text, nl=False)
        click.echo()
        click.secho(f"[{m.name}: {stream.timings}, {stream.finish_reason}]", dim=True, err=True)


def _is_model(text: str) -> bool:
    try:
        path = Path(text)
        return bool(text) and (path.is_file() if path.suffix == ".gguf" else (path / "config.json").is_file())
    except OSError:  # no name that a file could have, such as one that is too long
        return False
