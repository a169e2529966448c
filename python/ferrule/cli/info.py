"""`ferrule info`: what a checkpoint is and needs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import click

from . import options


@click.command(short_help="Show what a model is and needs.", epilog=options.MODEL_HELP)
@click.argument("model", required=False)
@options.json_flag
@options.loading
def info(model: str | None, as_json: bool, **rest: Any) -> None:
    """Show MODEL's architecture, weight formats, context, tokenizer, end tokens, chat template and memory needs."""
    with options.load(model, rest) as m:
        facts = m.info()
    click.echo(json.dumps(facts, indent=2, ensure_ascii=False) if as_json else as_text(facts))


def as_text(facts: Mapping[str, Any]) -> str:
    """The facts of `Model.info` as lines for people."""
    context = f"{facts['context']:,} tokens"
    if facts["context"] != facts["model_context"]:
        context += f" (the model's limit: {facts['model_context']:,})"
    weights, cache = facts["weight_bytes"], facts["cache_bytes_at_full_context"]
    per_token, expanded = facts["cache_bytes_per_token"], facts["expanded_cache_bytes_per_token"]
    states = facts["state_bytes_per_text"]
    saved = ""
    if expanded is not None:
        saved = f" as latents, {expanded / per_token:.1f} times less than keys and values ({_size(expanded)})"
    bos = "none" if facts["bos_token"] is None else f"{facts['bos_token']}, {'' if facts['adds_bos'] else 'not '}added"
    rows = {
        "model": facts["name"],
        "file": f"{facts['path']} ({facts['container']})",
        "architecture": f"{facts['architecture']}, {facts['layers']} layers, {_count(facts['parameters'])} parameters",
        "weights": ", ".join(f"{n} {fmt}" for fmt, n in facts["weights"].items()) + " tensors",
        "vocabulary": f"{facts['vocabulary']:,} tokens",
        "context": context,
        "tokenizer": facts["tokenizer"],
        "first token": bos,
        "end tokens": " ".join(facts["end_tokens"]) or "none",
        "chat template": "none" if facts["chat_template"] is None else f"{len(facts['chat_template'])} characters",
        "memory": f"{_size(weights + cache)}: {_size(weights)} weights (mapped), {_size(cache)} cache at full context",
        "cache": f"{facts['kv_dtype']}, {_size(per_token)} per token{saved}"
        + (f", {_size(states)} per text" if states else ""),
        "runs on": f"{facts['device']} ({facts['target']})"
        + (f", {facts['threads']} threads" if facts["device"] == "cpu" else ""),
    }
    if adapter := facts["adapter"]:
        ranks = ", ".join(map(str, adapter["ranks"]))
        rows["adapter"] = (
            f"{adapter['path']}, {adapter['matrices']} matrices of rank {ranks}, {_size(adapter['bytes'])}"
        )
    width = max(map(len, rows))
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows.items())


def _size(n_bytes: int) -> str:
    return _scaled(n_bytes, ("bytes", "kB", "MB", "GB", "TB"))


def _count(n: int) -> str:
    return _scaled(n, ("", "thousand", "million", "billion", "trillion"))


def _scaled(number: float, units: tuple[str, ...]) -> str:
    """Three digits and the unit, each a thousand times the one before."""
    power = 0
    while number >= 999.5 and power < len(units) - 1:
        number, power = number / 1000, power + 1
    digits = 0 if power == 0 or number >= 100 else 1 if number >= 10 else 2
    return f"{number:.{digits}f} {units[power]}".rstrip()
