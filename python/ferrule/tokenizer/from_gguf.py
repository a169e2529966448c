"""Builds the tokenizer that a GGUF file describes in its metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from numpy.typing import NDArray
from tokenizers import AddedToken, normalizers, pre_tokenizers
from tokenizers.models import BPE

from ..checkpoint.base import Checkpoint
from ..errors import CorruptFile, TokenizerError
from .detokenizer import SPACE_SYMBOL, PieceRules
from .pre_tokenizers import pre_tokenizer
from .sentencepiece_merges import merges_from_scores
from .tokenizer import END_OF_TURN_TOKENS, Tokenizer, end_of_turn_ids

# Values of tokenizer.ggml.token_type.
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED = range(1, 6)
# Ends of turn in some vocabularies, ordinary text (Gemma's HTML tags) in others: only the token type tells.
_AMBIGUOUS_ENDS = {"</s>", "<eos>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]"}
# Phi-3's special tokens swallow the white space after them, which GGUF cannot say; all but these.
_PHI3_MARK, _PHI3_KEEPS_SPACE = "<|placeholder1|>", {"<unk>", "<s>", "<|endoftext|>"}


def tokenizer_from_gguf(checkpoint: Checkpoint) -> Tokenizer:
    """The tokenizer of a GGUF checkpoint.

    Raises:
        TokenizerError: the file holds no tokenizer, or one of a kind or with a pre-tokenizer that is not known.
        CorruptFile: its parts contradict each other.
    """
    metadata, path = checkpoint.metadata, checkpoint.path
    model = metadata.get("tokenizer.ggml.model")
    if model not in ("gpt2", "llama", "gemma4"):
        raise TokenizerError(
            "the file holds no tokenizer" if model in (None, "none") else f"tokenizer model {model!r} is not supported",
            path=path,
            expected="tokenizer.ggml.model gpt2 (byte-level BPE), llama (SentencePiece BPE) or gemma4",
            hint="Load the model's Hugging Face directory instead",
        )
    tokens = [token or f"[EMPTY_{i}]" for i, token in enumerate(metadata.get("tokenizer.ggml.tokens", ()))]
    types = np.asarray(metadata.get("tokenizer.ggml.token_type", [_NORMAL] * len(tokens)), np.int32)
    _check_vocabulary(tokens, types, path)

    def token_id(name: str, default: int | None = None) -> int | None:
        found = metadata.get(f"tokenizer.ggml.{name}_token_id", default if model == "llama" else None)
        return int(found) if found is not None and 0 <= found < len(tokens) else None

    bos, unknown = token_id("bos", 1), token_id("unknown", 0)
    ends = {token_id("eos", 2), token_id("eot"), token_id("eom")}
    if model == "gpt2":
        backend, rules, adds_bos = _byte_level(tokens, metadata, path)
    else:
        backend, rules, adds_bos = _sentencepiece(tokens, types, unknown, metadata, path)
    # SentencePiece finds user-defined tokens in the escaped text, where U+2581 and a space are one.
    special = _add_tokens(backend, tokens, types, escaped=rules.metaspace and not rules.strip_leading_space)
    named = {"bos": bos, "eos": token_id("eos", 2), "unk": unknown, "pad": token_id("padding")}
    return Tokenizer(
        backend,
        kind=f"{model} ({metadata['tokenizer.ggml.pre']})" if model == "gpt2" else model,
        piece_rules=rules,
        bos_id=bos,
        adds_bos=bool(metadata.get("tokenizer.ggml.add_bos_token", adds_bos)) or model == "gemma4",
        end_ids={end for end in ends if end is not None} | end_of_turn_ids(special),
        chat_templates=_chat_templates(metadata),
        special_tokens={f"{name}_token": tokens[found] for name, found in named.items() if found is not None},
    )


def _check_vocabulary(tokens: Sequence[str], types: NDArray[np.int32], path: Path) -> None:
    if not tokens:
        raise CorruptFile("tokenizer.ggml.tokens is missing or empty", path=path)
    if len(types) != len(tokens):
        raise CorruptFile(
            "tokenizer.ggml.token_type has not one entry for each token",
            path=path,
            expected=str(len(tokens)),
            found=str(len(types)),
        )
    if len(set(tokens)) != len(tokens):
        seen: set[str] = set()
        twice = next(token for token in tokens if token in seen or seen.add(token))  # type: ignore[func-returns-value]
        raise CorruptFile(f"tokenizer.ggml.tokens lists {twice!r} twice", path=path)


def _byte_level(
    tokens: Sequence[str], metadata: Mapping[str, Any], path: Path
) -> tuple[tokenizers.Tokenizer, PieceRules, bool]:
    """Model "gpt2": merges over bytes, inside words that the named pre-tokenizer cuts. Also whether BOS is usual."""
    for key in ("tokenizer.ggml.pre", "tokenizer.ggml.merges"):
        if key not in metadata:
            raise TokenizerError(
                f"the file lacks {key}, without which text cannot be cut as the model learned it",
                path=path,
                hint="Convert the model again with a current converter, or load its Hugging Face directory",
            )
    row = pre_tokenizer(metadata["tokenizer.ggml.pre"])
    vocabulary = {token: token_id for token_id, token in enumerate(tokens)}
    merges = _pairs(metadata["tokenizer.ggml.merges"])
    backend = tokenizers.Tokenizer(BPE(vocabulary, merges, ignore_merges=row.ignore_merges))
    if row.nfc:
        backend.normalizer = normalizers.NFC()
    backend.pre_tokenizer = pre_tokenizers.Sequence(row.steps())
    return backend, PieceRules(byte_level=True), row.add_bos


def _sentencepiece(
    tokens: Sequence[str],
    types: NDArray[np.int32],
    unknown_id: int | None,
    metadata: Mapping[str, Any],
    path: Path,
) -> tuple[tokenizers.Tokenizer, PieceRules, bool]:
    """Models "llama" and "gemma4": merges over characters, no words, spaces as U+2581, unknown characters as bytes."""
    if "tokenizer.ggml.merges" in metadata:
        merges = _pairs(metadata["tokenizer.ggml.merges"])
    else:
        scores = np.asarray(metadata.get("tokenizer.ggml.scores", ()), np.float32)
        mergeable = np.isin(types, (_NORMAL, _UNUSED))
        if len(scores) != len(tokens) or not np.ptp(scores[mergeable]):
            raise TokenizerError(
                "tokenizer.ggml.scores is missing or all equal, so there is no order in which to merge",
                path=path,
                hint="Convert the model again from its tokenizer.model, or load its Hugging Face directory",
            )
        merges = merges_from_scores(tokens, scores, mergeable)
    vocabulary = {token: token_id for token_id, token in enumerate(tokens)}
    unknown = None if unknown_id is None else tokens[unknown_id]
    backend = tokenizers.Tokenizer(BPE(vocabulary, merges, unk_token=unknown, fuse_unk=True, byte_fallback=True))
    space_prefix = bool(metadata.get("tokenizer.ggml.add_space_prefix", metadata["tokenizer.ggml.model"] == "llama"))
    escape = normalizers.Replace(" ", SPACE_SYMBOL)
    prefix = normalizers.Prepend(SPACE_SYMBOL)
    backend.normalizer = normalizers.Sequence([prefix, escape]) if space_prefix else escape
    return backend, PieceRules(metaspace=True, byte_fallback=True, strip_leading_space=space_prefix), True


def _pairs(merges: Sequence[str]) -> list[tuple[str, str]]:
    """Cuts each "left right"; the first character is never the separator, since a token may begin with a space."""
    return [(merge[: (at := merge.find(" ", 1))], merge[at + 1 :]) for merge in merges]


def _add_tokens(
    backend: tokenizers.Tokenizer, tokens: Sequence[str], types: NDArray[np.int32], *, escaped: bool
) -> dict[str, int]:
    """Declares the tokens that are found whole in the text, before anything else; returns the special ones."""
    control = np.isin(types, (_CONTROL, _UNKNOWN))
    for text in END_OF_TURN_TOKENS - _AMBIGUOUS_ENDS:  # files exist that call <|im_end|> normal
        if (found := backend.token_to_id(text)) is not None:
            control[found] = True
    user_defined = (types == _USER_DEFINED) & ~control
    special = {tokens[i]: i for i in np.flatnonzero(control).tolist()}
    swallowing = special.keys() - _PHI3_KEEPS_SPACE if _PHI3_MARK in special else set()
    backend.add_special_tokens([AddedToken(t, rstrip=t in swallowing, normalized=False) for t in special])
    backend.add_tokens([AddedToken(tokens[i], normalized=escaped) for i in np.flatnonzero(user_defined).tolist()])
    return special


def _chat_templates(metadata: Mapping[str, Any]) -> dict[str, str]:
    """tokenizer.chat_template is the default one, tokenizer.chat_template.NAME the one called NAME."""
    key = "tokenizer.chat_template"
    named = {name.removeprefix(key + "."): text for name, text in metadata.items() if name.startswith(key + ".")}
    return named | ({"default": metadata[key]} if key in metadata else {})
