"""What can go wrong, one class per kind of failure, each with the facts as fields and what to do as `hint`."""

from __future__ import annotations

from pathlib import Path


class FerruleError(Exception):
    """Base of every error that ferrule raises on purpose.

    The message reads: where, what was expected, what was found, what to do.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str | Path | None = None,
        tensor: str | None = None,
        expected: str | None = None,
        found: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.path = str(path) if path is not None else None
        self.tensor = tensor
        self.expected = expected
        self.found = found
        self.hint = hint
        text = f"{self.path}: {message}" if self.path else message
        if tensor:
            text += f" (tensor {tensor})"
        if expected:
            text += f"; expected {expected}"
        if found:
            text += f"; found {found}"
        if hint:
            text += f". {hint}"
        super().__init__(text)


class ModelNotFound(FerruleError):
    """No file, directory, installed model package or hub repository of that name."""


class UnsupportedArchitecture(FerruleError):
    """The architecture, or a setting that changes its maths, is not implemented."""


class UnsupportedQuantization(FerruleError):
    """A weight format that ferrule cannot compute with."""


class AdapterError(FerruleError):
    """A LoRA adapter contradicts itself, does not fit the model, or is of a kind that is not supported."""


class CorruptFile(FerruleError):
    """The file is truncated or its contents contradict its format or its config."""


class TokenizerError(FerruleError):
    """The tokenizer is missing, unknown or cannot do what was asked."""


class ChatTemplateError(FerruleError):
    """The chat template is missing or failed."""


class ContextLengthError(FerruleError):
    """The prompt is empty or does not fit the context."""


class MemoryBudgetError(FerruleError):
    """Loading or running would need more memory than there is."""


class DeviceError(FerruleError):
    """The device does not exist here or cannot run the plan."""


class OptionError(FerruleError, ValueError):
    """An option has a value outside its range."""


class UnsupportedOp(FerruleError):
    """No kernel of the target serves an op of the graph."""
