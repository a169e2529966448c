"""Text to token ids and back, and chat messages to text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tokenizers

from ..errors import ChatTemplateError, TokenizerError
from .detokenizer import Detokenizer, PieceRules

# Special tokens by which instruction-tuned models end their turn, whatever the config lists (llama.cpp's list).
END_OF_TURN_TOKENS = frozenset(
    (
        *("<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<|endoftext|>", "<|end_of_text|>", "<end_of_turn>"),
        *("<|return|>", "<|call|>", "<|calls|>", "<|flush|>", "<turn|>", "<|tool_response>", "<end_of_utterance>"),
        *("<EOT>", "_<EOT>", "[EOT]", "[EOS]", "[e~[", "</s>", "<eos>", "<\uff5cend▁of▁sentence\uff5c>"),
    )
)
# Where these are special tokens too, <|end|> closes a part of a turn and the turn goes on.
_TURN_ENDS_BESIDE_END = ({"<|return|>", "<|call|>"}, {"<|calls|>", "<|flush|>"})


def end_of_turn_ids(special_tokens: Mapping[str, int]) -> frozenset[int]:
    """The ids among `special_tokens` (text to id) that end a turn."""
    ends = END_OF_TURN_TOKENS & special_tokens.keys()
    if any(names <= ends for names in _TURN_ENDS_BESIDE_END):
        ends -= {"<|end|>"}
    return frozenset(special_tokens[text] for text in ends)


class Tokenizer:
    """The tokenizer of one checkpoint.

    Attributes:
        kind: what it was made from, in words.
        vocab_size: number of token ids, added ones included; the model may score more rows than that.
        bos_id: the beginning-of-sequence token, if there is one.
        adds_bos: whether `encode` puts `bos_id` first.
        end_ids: every token that ends a generation.
        chat_templates: Jinja sources by name; the usual one is called "default".
        special_tokens: what templates see by name: bos_token, eos_token ...
        piece_rules: how pieces spell bytes.
    """

    def __init__(
        self,
        backend: tokenizers.Tokenizer,
        *,
        kind: str,
        piece_rules: PieceRules,
        bos_id: int | None,
        adds_bos: bool,
        end_ids: Iterable[int],
        chat_templates: Mapping[str, str],
        special_tokens: Mapping[str, Any],
    ) -> None:
        if not all(isinstance(template, str) for template in chat_templates.values()):
            raise TypeError("a chat template is no text")
        self._backend = backend
        self._added = backend.get_added_tokens_decoder()
        self._bytes: dict[int, bytes] = {}
        self.kind = kind
        self.vocab_size: int = backend.get_vocab_size(with_added_tokens=True)
        self.piece_rules = piece_rules
        self.bos_id = bos_id
        self.adds_bos = adds_bos and bos_id is not None
        self.end_ids = frozenset(end_ids)
        self.chat_templates = dict(chat_templates)
        self.special_tokens = dict(special_tokens)

    def __repr__(self) -> str:
        ends = sorted(self.end_ids)
        return f"Tokenizer({self.kind}, vocab_size={self.vocab_size}, bos_id={self.bos_id}, end_ids={ends})"

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """The ids of `text`; special tokens written out in it become their ids.

        With `add_special_tokens`, BOS comes first where the model wants it, unless the text begins with it already.
        An end token is never appended, since the ids are there to be continued.

        Raises:
            TokenizerError: `text` is not a string of valid Unicode.
        """
        if not isinstance(text, str):
            raise TokenizerError("only text can be encoded", expected="str", found=type(text).__name__)
        try:
            ids = self._backend.encode(text, add_special_tokens=False).ids
        except (TypeError, UnicodeEncodeError) as error:
            raise TokenizerError("the text holds a lone surrogate, which is no character") from error
        if add_special_tokens and self.adds_bos and self.bos_id is not None and ids[:1] != [self.bos_id]:
            ids = [self.bos_id, *ids]
        return list(ids)

    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool = True) -> str:
        """The text of `ids`. Bytes that are no UTF-8 become U+FFFD; ids without a token are empty."""
        detokenizer = Detokenizer(self, skip_special_tokens=skip_special_tokens)
        return "".join(map(detokenizer.feed, ids)) + detokenizer.flush()

    def id_to_token(self, token_id: int) -> str | None:
        """The piece as the vocabulary spells it, None for an id without a token."""
        return self._backend.id_to_token(token_id) if 0 <= token_id < 1 << 32 else None

    def token_to_id(self, token: str) -> int | None:
        """The id of a piece spelled as in the vocabulary."""
        return self._backend.token_to_id(token)

    def is_special(self, token_id: int) -> bool:
        """Whether the token is a mark of the format (BOS, end of turn ...) and no text."""
        token = self._added.get(token_id)
        return token is not None and token.special

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes that the token adds to the text, maybe part of a character; b"" for an id without a token."""
        data = self._bytes.get(token_id)
        if data is None:
            piece = self.id_to_token(token_id)
            data = b"" if piece is None else self.piece_rules.to_bytes(piece, added=token_id in self._added)
            self._bytes[token_id] = data
        return data

    @property
    def chat_template(self) -> str | None:
        """The template that `apply_chat_template` uses when no tools are given."""
        return self.chat_templates.get("default")

    def apply_chat_template(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = True,
        tools: Sequence[Mapping[str, Any]] | None = None,
        chat_template: str | None = None,
        **extra: Any,
    ) -> str:
        """The prompt for `messages` ({"role": ..., "content": ...}), to be encoded with `encode`.

        Args:
            messages: the conversation, oldest first; content may be what else the template understands.
            add_generation_prompt: end with the opening of the assistant's turn.
            tools: JSON schemas of functions; the template named "tool_use" serves them, if there is one.
            chat_template: Jinja source to use instead of the model's.
            **extra: more variables for the template, such as enable_thinking.

        Raises:
            ChatTemplateError: there is no template, or it fails on these messages.
        """
        if chat_template is None and tools:
            chat_template = self.chat_templates.get("tool_use")
        if chat_template is None:
            chat_template = self.chat_template
        if chat_template is None:
            raise ChatTemplateError(
                "the model has no chat template",
                hint="Give one (chat_template=, --chat-template), or continue a text (generate, `ferrule run`)",
            )
        from .chat_template import render_chat_template  # here, so that Jinja is imported only where it is needed

        variables = {
            **self.special_tokens,
            "messages": messages,
            "tools": tools,
            "documents": None,
            "add_generation_prompt": add_generation_prompt,
            **extra,
        }
        return render_chat_template(chat_template, variables)

    def encode_chat(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> list[int]:
        """The ids of the prompt that `apply_chat_template` makes with the same arguments, with BOS once."""
        return self.encode(self.apply_chat_template(messages, **options))
