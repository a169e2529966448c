"""Options that several subcommands share, under the same names everywhere."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import click

from ..architectures import Architecture
from ..checkpoint import Checkpoint, open_adapter
from ..lora import record_adapted
from ..lowering.layout import KV_DTYPES
from ..model import Model
from ..model import load as load_model

F = TypeVar("F", bound=Callable[..., Any])

_LOADING = (
    "adapter",
    "context",
    "threads",
    "target",
    "device",
    "kv_dtype",
    "activation_bits",
    "huge_pages",
    "revision",
    "chat_template",
    "ignore_config_keys",
)

MODEL_HELP = """MODEL is a GGUF file, a Hugging Face directory or a hub model (org/name, org/name:Q4_K_M,
org/name/file.gguf); without one, an installed model package is used."""

json_flag = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
adapter = click.option("--lora", "adapter", metavar="ADAPTER", help="LoRA adapter: a PEFT directory or a GGUF file.")
kv_dtype = click.option(
    "--kv-dtype",
    type=click.Choice(["auto", *KV_DTYPES]),
    default="auto",
    help="Type of the cache; q8_0 takes half of f16's memory. Default: auto, f32 for float weights, else f16.",
)
activation_bits = click.option(
    "--activation-bits",
    type=click.Choice([16, 8]),
    default=16,
    show_default=True,
    help="On the CPU, with weights other than F32: 8 reads prompts faster, 16 is exact.",
)
revision = click.option("--revision", metavar="NAME", help="Branch, tag or commit of a hub model.")
ignored_keys = click.option(
    "--ignore-config-key",
    "ignore_config_keys",
    metavar="KEY",
    multiple=True,
    help="Disregard a config key that is not understood; may be repeated.",
)


def decode(data: bytes, name: str) -> str:
    """The text that a user's bytes are; what is not UTF-8 is an error of the command line."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise click.ClickException(f"{name} is not UTF-8: {error.reason} at byte {error.start}") from error


def loading(command: F) -> F:
    """Adds the options of `ferrule.load`."""
    devices = click.Choice(["auto", "cpu", "metal"])
    for option in (
        ignored_keys,
        click.option(
            "--chat-template",
            metavar="FILE",
            type=click.File("rb"),
            callback=lambda _context, _option, file: file and decode(file.read(), file.name),
            help="Jinja template to use instead of the model's own.",
        ),
        revision,
        kv_dtype,
        click.option("--huge-pages/--no-huge-pages", default=True, help="Move weights into huge pages; default: yes."),
        activation_bits,
        click.option(
            "--device",
            type=devices,
            default="auto",
            help="Where to run. Default: auto, the GPU if it can run the model, else the CPU.",
        ),
        click.option("--target", metavar="NAME", help="CPU instruction set to force, such as avx2; default: the best."),
        whole_number("--threads", text="CPU threads; default: the physical cores."),
        adapter,
        whole_number("--context", text="Most tokens of prompt and answer; default: the model's limit."),
    ):
        command = option(command)
    return command


def sampling(command: F) -> F:
    """Adds the options of generation; those not given are the model's own, see `GenerationOptions.create`."""
    for option in (
        click.option("--ignore-eos", is_flag=True, help="Go on after end tokens."),
        click.option("--stop", metavar="TEXT", multiple=True, help="Stop before this text; may be repeated."),
        whole_number("--seed", least=0, text="The same seed gives the same text; default: a new one."),
        _number("--repetition-penalty", "1 is none, more makes repetition less likely; default: the model's own or 1."),
        _number(
            "--min-p", "Drop tokens less likely than this share of the likeliest one; default: the model's own or 0."
        ),
        _number("--top-p", "Keep the likeliest tokens that make up this probability; default: the model's own or 1."),
        whole_number(
            "--top-k", least=0, metavar="K", text="Keep the K likeliest tokens, 0 all; default: the model's own or 0."
        ),
        _number(
            "--temperature",
            "0 always takes the likeliest token; default: the model's own or 0, with top-k, top-p or min-p 1.",
        ),
        whole_number("-n", "--max-new-tokens", text="Most tokens to write; default: 256."),
    ):
        command = option(command)
    return command


def whole_number(
    *names: str, text: str, least: int = 1, most: int | None = None, default: int | None = None, metavar: str = "N"
) -> Callable[[F], F]:
    """An option that takes a whole number, of which the help shows bounds and default."""
    kind = click.IntRange(least, most)
    return click.option(
        *names, type=kind, metavar=metavar, default=default, show_default=default is not None, help=text
    )


def _number(name: str, text: str) -> Callable[[F], F]:
    return click.option(name, type=float, metavar="X", help=text)


def load(model: str | None, options: dict[str, Any]) -> Model:
    """Loads the named model, or an installed one, taking the options of loading out of `options`."""
    chosen = {name: options.pop(name) for name in _LOADING}
    return load_model(model, progress=show_progress(), **chosen)


def architecture(checkpoint: Checkpoint, adapter: str | None, ignored_keys: Iterable[str]) -> Architecture:
    """The architecture of a model, of one with an adapter where that is named."""
    lora = None if adapter is None else open_adapter(adapter)
    return record_adapted(checkpoint, lora, ignore_config_keys=ignored_keys)


def show_progress() -> bool:
    """Whether somebody is there to see progress."""
    return sys.stderr.isatty()


@contextlib.contextmanager
def status() -> Iterator[Callable[[str], None]]:
    """What long work shows its state with on a terminal: one line in place of the one before, gone at the end."""

    def show(text: str) -> None:
        if show_progress():
            click.echo(f"\r\x1b[K{text}", nl=False, err=True)

    try:
        yield show
    finally:
        show("")


def given(options: dict[str, Any]) -> dict[str, Any]:
    """The generation options that the user gave."""
    return {name: value for name, value in options.items() if value is not None and value != ()}
