"""Text to token ids and back, for every container."""

from __future__ import annotations

from ..checkpoint.base import Checkpoint
from .detokenizer import Detokenizer
from .from_gguf import tokenizer_from_gguf
from .from_json import tokenizer_from_directory
from .tokenizer import Tokenizer

__all__ = ["Detokenizer", "Tokenizer", "load_tokenizer"]


def load_tokenizer(checkpoint: Checkpoint) -> Tokenizer:
    """The tokenizer of `checkpoint`.

    Raises:
        TokenizerError: it is missing or of a kind that is not supported.
        CorruptFile: its files contradict themselves.
    """
    if checkpoint.container == "gguf":
        return tokenizer_from_gguf(checkpoint)
    return tokenizer_from_directory(checkpoint)
