"""Options that several subcommands share, under the same names everywhere."""

from __future__ import annotations

import sys
from collections.abc import Callable
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
)

MODEL_HELP = """MODEL is a GGUF file, a Hugging Face directory or a hub model (org/name, org/name:Q4_K_M,
org/name/file.gguf); without one, an installed model package is used."""

json_flag = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
adapter = click.option("--lora", "adapter", metavar="ADAPTER", help="LoRA adapter: a PEFT directory or a GGUF file.")
kv_dtype = click.option(
    "--kv-dtype",
    type=click.Choice(["auto", *KV_DTYPES]),
    default="auto",
    help="Type of the cache; q8_0 takes half of f16's memory.",
)
activation_bits = click.option(
    "--activation-bits",
    type=click.Choice([16, 8]),
    default=16,
    help="On the CPU, with weights other than F32: 8 reads prompts faster, 16 is exact.",
)
revision = click.option("--revision", metavar="NAME", help="Branch, tag or commit of a hub model.")


def loading(command: F) -> F:
    """Adds the options of `ferrule.load`."""
    devices = click.Choice(["auto", "cpu", "metal"])
    for option in (
        revision,
        kv_dtype,
        click.option("--huge-pages/--no-huge-pages", default=True, help="Move weights into huge pages; default: yes."),
        activation_bits,
        click.option("--device", type=devices, default="auto", help="Where to run."),
        click.option("--target", metavar="NAME", help="CPU instruction set to force, such as avx2."),
        _whole_number("--threads", 1, "CPU threads; default: the physical cores."),
        adapter,
        _whole_number("--context", 1, "Most tokens of prompt and answer; default: the model's limit."),
    ):
        command = option(command)
    return command


def sampling(command: F) -> F:
    """Adds the options of generation; those not given keep the model's own defaults."""
    for option in (
        click.option("--ignore-eos", is_flag=True, help="Go on after end tokens."),
        click.option("--stop", metavar="TEXT", multiple=True, help="Stop before this text; may be repeated."),
        _whole_number("--seed", 0, "The same seed gives the same text."),
        _number("--repetition-penalty", "1 is none; more makes repetition less likely."),
        _number("--min-p", "Drop tokens less likely than this share of the likeliest one."),
        _number("--top-p", "Keep the likeliest tokens that make up this probability."),
        _whole_number("--top-k", 0, "Keep the K likeliest tokens; 0 keeps all.", metavar="K"),
        _number("--temperature", "0 always takes the likeliest token."),
        _whole_number("-n", 1, "Most tokens to write; default: 256.", long="--max-new-tokens"),
    ):
        command = option(command)
    return command


def _whole_number(name: str, least: int, text: str, *, metavar: str = "N", long: str = "") -> Callable[[F], F]:
    names = (name, long) if long else (name,)
    return click.option(*names, type=click.IntRange(least), metavar=metavar, help=text)


def _number(name: str, text: str) -> Callable[[F], F]:
    return click.option(name, type=float, metavar="X", help=text)


def load(model: str | None, options: dict[str, Any]) -> Model:
    """Loads the named model, or an installed one, taking the options of loading out of `options`."""
    chosen = {name: options.pop(name) for name in _LOADING}
    return load_model(model, progress=show_progress(), **chosen)


def architecture(checkpoint: Checkpoint, adapter: str | None) -> Architecture:
    """The architecture of a model, of one with an adapter where that is named."""
    return record_adapted(checkpoint, None if adapter is None else open_adapter(adapter))


def show_progress() -> bool:
    """Whether somebody is there to see progress."""
    return sys.stderr.isatty()


def given(options: dict[str, Any]) -> dict[str, Any]:
    """The generation options that the user gave."""
    return {name: value for name, value in options.items() if value is not None and value != ()}
