"""Text to token ids and back, for every container."""

from __future__ import annotations

from ..checkpoint.base import Checkpoint
from ..errors import CorruptFile, FerruleError
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
    build = tokenizer_from_gguf if checkpoint.container == "gguf" else tokenizer_from_directory
    try:
        return build(checkpoint)
    except (FerruleError, MemoryError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # `tokenizers` raises plain Exception, or panics, which is none
        problem = f"the parts of the tokenizer do not fit together: {error or type(error).__name__}"
        raise CorruptFile(problem, path=checkpoint.path) from error
