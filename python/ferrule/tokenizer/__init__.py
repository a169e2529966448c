"""Text to token ids and back, for every container."""

from __future__ import annotations

from ..checkpoint.base import Checkpoint
from .detokenizer import Detokenizer
from .from_gguf import tokenizer_from_gguf
from .from_json import tokenizer_from_directory
from .tokenizer import Tokenizer

__all__ = ["Detokenizer", "Tokenizer", "load_tokenizer"]


def load_tokenizer(checkpoint: Checkpoint, *, chat_template: str | None = None) -> Tokenizer:
    """The tokenizer of `checkpoint`, with `chat_template` (Jinja source) in place of its own if given.

    Raises:
        TokenizerError: it is missing or of a kind that is not supported.
        CorruptFile: its files contradict themselves.
    """
    build = tokenizer_from_gguf if checkpoint.container == "gguf" else tokenizer_from_directory
    tokenizer = build(checkpoint)
    if chat_template is not None:
        tokenizer.chat_templates = {"default": chat_template}
    return tokenizer
