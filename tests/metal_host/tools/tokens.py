"""Tokens of preprocessed Metal source, with replacements that keep every line where it was."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""(?P<marker>^\#[^\n]*)
    |(?P<space>\s+)
    |(?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
    |(?P<name>[A-Za-z_]\w*)
    |(?P<number>\.?\d(?:[eEpP][+-]|[\w.'])*)
    |(?P<punctuation>\[\[|\]\]|::|->|[-+*/%&|^~!<>=?:;,.(){}\[\]])""",
    re.X | re.M,
)
_LINE_MARKER = re.compile(r'#\s*(?:line\s+)?(\d+)\s+"(.*?)"')
_CLOSING = {"(": ")", "[": "]", "[[": "]]", "{": "}"}


class TranslationError(Exception):
    """Source that Metal or the translator refuses; the text has one "file:line: error: ..." per line."""


@dataclass(frozen=True, slots=True)
class Token:
    """`place` is the token's index among all tokens, white space included."""

    kind: str
    text: str
    file: str
    line: int
    place: int

    def error(self, message: str) -> TranslationError:
        """An error at this token."""
        return TranslationError(f"{self.file}:{self.line}: error: {message}")


class Tokens:
    """The significant tokens of a translation unit, by index; those beyond either end are empty."""

    def __init__(self, preprocessed: str) -> None:
        self._all = list(_split_subscripts(_tokenize(preprocessed)))
        self._tokens = [token for token in self._all if token.kind not in ("marker", "space")]
        self._texts = [token.text for token in self._all]
        self._closing = self._match_brackets()

    def __len__(self) -> int:
        return len(self._tokens)

    def __getitem__(self, i: int) -> Token:
        return self._tokens[i] if 0 <= i < len(self._tokens) else Token("end", "", "", 0, -1)

    def text(self, i: int) -> str:
        """Text of token i."""
        return self[i].text

    def texts(self, begin: int, end: int) -> list[str]:
        """Texts of tokens begin to end, without end."""
        return [token.text for token in self._tokens[begin:end]]

    def closing(self, i: int) -> int:
        """The bracket that closes the one at i."""
        return self._closing[i]

    def closing_angle(self, i: int) -> int:
        """The `>` of the template arguments that `<` at i opens."""
        depth = 0
        j = i
        while j < len(self):
            if self.text(j) in _CLOSING:
                j = self.closing(j)
            depth += (self.text(j) == "<") - (self.text(j) == ">")
            if depth == 0:
                return j
            j += 1
        raise self[i].error("unbalanced <")

    def opening_angle(self, i: int) -> int:
        """The `<` that `>` at i closes."""
        depth = 0
        for j in range(i, -1, -1):
            depth += (self.text(j) == ">") - (self.text(j) == "<")
            if depth == 0:
                return j
        raise self[i].error("unbalanced >")

    def find(self, text: str) -> Iterator[int]:
        """Indices of the tokens with the given text."""
        return (i for i, token in enumerate(self._tokens) if token.text == text)

    def replace(self, i: int, text: str) -> None:
        """Token i becomes `text` in the rendering; reading goes on seeing the source."""
        self._texts[self[i].place] = text

    def erase(self, begin: int, end: int) -> None:
        """Removes tokens begin to end, without end, from the rendering; line breaks and markers stay."""
        for token in self._all[self[begin].place : self[end - 1].place + 1]:
            if token.kind != "marker":
                self._texts[token.place] = "\n" * token.text.count("\n")

    def render(self) -> str:
        """The text with all replacements."""
        return "".join(self._texts)

    def _match_brackets(self) -> dict[int, int]:
        closing: dict[int, int] = {}
        stack: list[int] = []
        for i, token in enumerate(self._tokens):
            if token.text in _CLOSING:
                stack.append(i)
            elif token.text in _CLOSING.values():
                if not stack or _CLOSING[self.text(stack[-1])] != token.text:
                    raise token.error(f"unbalanced {token.text}")
                closing[stack.pop()] = i
        if stack:
            raise self[stack[-1]].error(f"unbalanced {self.text(stack[-1])}")
        return closing


def _tokenize(text: str) -> Iterator[tuple[str, str, str, int]]:
    file, line, position = "", 1, 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise TranslationError(f"{file}:{line}: error: cannot read {text[position : position + 20]!r}")
        kind, content = str(match.lastgroup), match.group()
        if marker := _LINE_MARKER.match(content):
            line, file = int(marker[1]) - 1, marker[2]
        yield kind, content, file, line
        line += content.count("\n")
        position = match.end()


def _split_subscripts(parts: Iterator[tuple[str, str, str, int]]) -> Iterator[Token]:
    """`]]` ends an attribute only where `[[` began it; elsewhere, as in a[b[i]], it is two brackets."""
    open_brackets: list[str] = []
    place = 0
    for kind, text, file, line in parts:
        pieces = [text]
        if kind == "punctuation" and text in ("[", "[["):
            open_brackets.append(text)
        elif text == "]]" and open_brackets[-1:] != ["[["]:
            pieces = ["]", "]"]
            del open_brackets[-2:]
        elif kind == "punctuation" and text in ("]", "]]"):
            del open_brackets[-1:]
        for piece in pieces:
            yield Token(kind, piece, file, line, place)
            place += 1
