"""From token ids to text, one id at a time, without ever showing half a character."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from ..errors import TokenizerError

SPACE_SYMBOL = "\u2581"  # SentencePiece's stand-in for a space
_BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def _byte_alphabet() -> dict[str, int]:
    """GPT-2's printable stand-ins: visible Latin-1 bytes are themselves, the rest follow from U+0100 in order."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in visible]
    return {chr(byte): byte for byte in visible} | {chr(0x100 + n): byte for n, byte in enumerate(hidden)}


_BYTE_OF = _byte_alphabet()


@dataclass(frozen=True)
class PieceRules:
    """How the pieces of a vocabulary spell bytes.

    `byte_level`: every character stands for one byte (GPT-2). `metaspace`: U+2581 stands for a space.
    `byte_fallback`: the piece <0xHH> is one byte. `strip_leading_space`: encoding put a space before the text, which
    decoding takes away again.
    """

    byte_level: bool = False
    metaspace: bool = False
    byte_fallback: bool = False
    strip_leading_space: bool = False

    def to_bytes(self, piece: str, *, added: bool = False) -> bytes:
        """The bytes that a piece stands for; an added token is spelled as in the text, though with U+2581."""
        if self.byte_level and not added:
            try:
                return bytes(_BYTE_OF[character] for character in piece)
            except KeyError:  # not in the alphabet: the piece is its own text
                return piece.encode()
        if self.byte_fallback and not added and (match := _BYTE_PIECE.fullmatch(piece)):
            return bytes((int(match[1], 16),))
        return (piece.replace(SPACE_SYMBOL, " ") if self.metaspace else piece).encode()


def rules_of_decoder(decoder: Mapping[str, Any] | None) -> PieceRules:
    """The rules that the "decoder" of a tokenizer.json amounts to.

    Raises:
        TokenizerError: a decoder that causal language models do not use (WordPiece, CTC ...).
    """
    steps = [] if decoder is None else decoder["decoders"] if decoder["type"] == "Sequence" else [decoder]
    found: dict[str, bool] = {}
    for step in steps:
        match step:
            case {"type": "ByteLevel"}:
                found["byte_level"] = True
            case {"type": "ByteFallback"}:
                found["byte_fallback"] = True
            case {"type": "Fuse"}:
                pass
            case {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}:
                found["metaspace"] = True
            case {"type": "Metaspace", "replacement": "\u2581", **options}:
                found["metaspace"] = True
                found["strip_leading_space"] = options.get("prepend_scheme", "always") != "never"
            case {"type": "Strip", "content": " ", "start": 1, "stop": 0}:
                found["strip_leading_space"] = True
            case _:
                raise TokenizerError(
                    f"decoder step {step} is not supported",
                    expected="ByteLevel, ByteFallback, Fuse, Metaspace, Strip or Replace of U+2581 by a space",
                )
    return PieceRules(**found)


class Vocabulary(Protocol):
    """What the detokenizer asks of a tokenizer."""

    piece_rules: PieceRules

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes that the token adds to the text."""

    def is_special(self, token_id: int) -> bool:
        """Whether the token is no text."""


class Detokenizer:
    """Turns ids into text as they come.

    `feed` returns what became readable; a character whose bytes are spread over several tokens is held back until it
    is whole, and bytes that can never become one are U+FFFD. The pieces and `flush`, joined, are `Tokenizer.decode` of
    all the ids. Ids that follow a `prompt` are decoded as its continuation: the prompt's text, the pieces and `flush`
    are the decoding of all of them.
    """

    def __init__(self, tokenizer: Vocabulary, prompt: Iterable[int] = (), *, skip_special_tokens: bool = True) -> None:
        self._tokenizer = tokenizer
        self._skip_special_tokens = skip_special_tokens
        self._strip_next = tokenizer.piece_rules.strip_leading_space
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        for token_id in prompt:
            self.feed(token_id)

    def feed(self, token_id: int) -> str:
        """The text that `token_id` completes, maybe empty."""
        if self._skip_special_tokens and self._tokenizer.is_special(token_id):
            return ""
        data = self._tokenizer.token_bytes(token_id)
        if self._strip_next and data:
            data = data.removeprefix(b" ")
            self._strip_next = False
        return self._utf8.decode(data)

    def flush(self) -> str:
        """What is still held back, as U+FFFD; call once at the end."""
        return self._utf8.decode(b"", final=True)
