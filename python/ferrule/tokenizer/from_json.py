"""Builds the tokenizer of a Hugging Face directory from its tokenizer.json and the files around it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken

from ..checkpoint.base import Checkpoint
from ..errors import CorruptFile, TokenizerError
from .detokenizer import rules_of_decoder
from .tokenizer import Tokenizer, end_of_turn_ids

_SPECIAL_NAMES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


def tokenizer_from_directory(checkpoint: Checkpoint) -> Tokenizer:
    """The tokenizer of a Hugging Face checkpoint.

    Raises:
        TokenizerError: tokenizer.json is missing, or of a kind that causal language models do not use.
        CorruptFile: a file is not what it should be.
    """
    directory = checkpoint.path if checkpoint.path.is_dir() else checkpoint.path.parent
    backend = _read_backend(directory)
    rules = rules_of_decoder(json.loads(backend.decoder.__getstate__()) if backend.decoder else None)

    config = _read_json(directory / "special_tokens_map.json") | _read_json(directory / "tokenizer_config.json")
    special_tokens = {name: _content(config[name]) for name in _SPECIAL_NAMES if config.get(name)}
    _add_missing_tokens(backend, config, special_tokens.values())
    added = backend.get_added_tokens_decoder()
    special_ids = {token.content: token_id for token_id, token in added.items() if token.special}
    bos_id, eos_id = (
        backend.token_to_id(special_tokens[name]) if name in special_tokens else None
        for name in ("bos_token", "eos_token")
    )
    prefix = _prefix(backend)
    adds_bos = bool(config.get("add_bos_token", prefix))
    if prefix and "add_bos_token" not in config:
        bos_id = prefix[0]
    ends = {*_ids(checkpoint.generation_config), *_ids(checkpoint.config), *_ids(checkpoint.config.get("text_config"))}
    return Tokenizer(
        backend,
        kind=f"tokenizer.json ({type(backend.model).__name__})",
        piece_rules=rules,
        bos_id=bos_id,
        adds_bos=adds_bos,
        end_ids=ends | ({eos_id} if eos_id is not None else set()) | end_of_turn_ids(special_ids),
        chat_templates=_chat_templates(directory, config),
        special_tokens=special_tokens,
    )


def _read_backend(directory: Path) -> tokenizers.Tokenizer:
    """tokenizer.json, without what it says of cutting and filling up texts."""
    path = directory / "tokenizer.json"
    if not path.is_file():
        raise TokenizerError(
            "the model has no tokenizer.json",
            path=directory,
            found="tokenizer.model" if (directory / "tokenizer.model").is_file() else None,
            hint="Make one with transformers: AutoTokenizer.from_pretrained(directory).save_pretrained(directory)",
        )
    try:
        text = path.read_text(encoding="utf-8")
        backend = tokenizers.Tokenizer.from_str(text)
    except Exception as error:  # `tokenizers` raises plain Exception
        raise CorruptFile(f"not a tokenizer.json: {error}", path=path) from error
    backend.no_truncation()
    backend.no_padding()
    return backend


def _read_json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CorruptFile(f"not JSON: {error}", path=path) from error
    if not isinstance(data, dict):
        raise CorruptFile("not a JSON object", path=path, found=type(data).__name__)
    return data


def _content(token: str | Mapping[str, Any]) -> str:
    """Token entries are plain text or an object with flags."""
    return token if isinstance(token, str) else str(token["content"])


def _ids(config: Mapping[str, Any] | None) -> list[int]:
    """`eos_token_id` of a config: absent, an int or a list."""
    eos = (config or {}).get("eos_token_id")
    return [] if eos is None else [int(i) for i in eos] if isinstance(eos, list) else [int(eos)]


def _add_missing_tokens(backend: tokenizers.Tokenizer, config: Mapping[str, Any], named: Iterable[str]) -> None:
    """tokenizer_config.json may declare tokens that tokenizer.json does not; ids follow from their order."""
    known = {token.content for token in backend.get_added_tokens_decoder().values()}
    declared = sorted(config.get("added_tokens_decoder", {}).items(), key=lambda item: int(item[0]))
    for _, flags in declared:
        if flags["content"] not in known:
            token = AddedToken(**{name: value for name, value in flags.items() if name != "__type"})
            (backend.add_special_tokens if token.special else backend.add_tokens)([token])
            known.add(flags["content"])
    backend.add_special_tokens([AddedToken(text, normalized=False) for text in named if text not in known])


def _prefix(backend: tokenizers.Tokenizer) -> list[int]:
    """What the post-processor of tokenizer.json puts before a text."""
    plain, processed = (backend.encode("a", add_special_tokens=flag).ids for flag in (False, True))
    starts = range(len(processed) - len(plain) + 1)
    return processed[: next(start for start in starts if processed[start : start + len(plain)] == plain)]


def _chat_templates(directory: Path, config: Mapping[str, Any]) -> dict[str, str]:
    """By name; a file of its own comes before an entry of tokenizer_config.json."""
    entry = config.get("chat_template") or _read_json(directory / "chat_template.json").get("chat_template") or {}
    templates = {"default": entry} if isinstance(entry, str) else {item["name"]: item["template"] for item in entry}
    for path in sorted((directory / "additional_chat_templates").glob("*.jinja")):
        templates[path.stem] = path.read_text(encoding="utf-8")
    if (path := directory / "chat_template.jinja").is_file():
        templates["default"] = path.read_text(encoding="utf-8")
    return templates
