"""Options that several subcommands share, under the same names everywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from ..model import Model

F = TypeVar("F", bound=Callable[..., Any])

MODEL_HELP = (
    "A GGUF file, a Hugging Face directory, or a hub repository (org/name). Without one, an installed model package."
)


def loading(command: F) -> F:
    """Adds the options of `ferrule.load`."""
    for option in (
        click.option("--context", type=click.IntRange(1), help="Positions to keep at most; default: the model's."),
        click.option("--threads", type=click.IntRange(1), help="CPU threads; default: the cores available."),
        click.option("--target", help="CPU instruction set to force, such as avx2; default: the best there is."),
        click.option("--device", type=click.Choice(["auto", "cpu", "metal"]), default="auto", show_default=True),
    ):
        command = option(command)
    return command


def sampling(command: F) -> F:
    """Adds the options of generation; those not given keep the model's own defaults."""
    for option in (
        click.option("--ignore-eos", is_flag=True, help="Do not stop at end-of-text tokens."),
        click.option("--stop", multiple=True, help="Stop before this text; may be given several times."),
        click.option("--seed", type=click.IntRange(0), help="The same seed gives the same text."),
        click.option("--repetition-penalty", type=float, help="1 is none; larger makes repetition less likely."),
        click.option("--min-p", type=float, help="Drop tokens less likely than this share of the likeliest one."),
        click.option("--top-p", type=float, help="Keep the likeliest tokens that make up this probability."),
        click.option("--top-k", type=int, help="Keep the k likeliest tokens; 0 keeps all."),
        click.option("--temperature", type=float, help="0 always takes the likeliest token."),
        click.option("-n", "--max-new-tokens", type=click.IntRange(1), help="Tokens to write at most.  [default: 256]"),
    ):
        command = option(command)
    return command


def given(options: dict[str, Any]) -> dict[str, Any]:
    """The generation options that the user gave."""
    return {k: v for k, v in options.items() if v is not None and v != () and v is not False}


def load(model: str | None, **options: Any) -> Model:
    """Loads the named model, or an installed one, with progress on a terminal."""
    import ferrule

    return ferrule.load(model, progress=click.get_text_stream("stderr").isatty(), **options)
