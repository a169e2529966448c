"""A model's config as an architecture reads it: every key is either read, known to be harmless, or refused."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from ..errors import CorruptFile, UnsupportedArchitecture

# Keys that never change the maths of a forward pass: training, generation, tokens, bookkeeping.
HARMLESS = frozenset(
    """
    architectures model_type transformers_version torch_dtype dtype use_cache initializer_range _name_or_path
    attention_dropout attn_pdrop embd_pdrop resid_pdrop hidden_dropout attention_probs_dropout_prob residual_dropout
    bos_token_id eos_token_id pad_token_id unk_token_id sep_token_id decoder_start_token_id vocab_size
    max_position_embeddings tie_word_embeddings pretraining_tp output_attentions output_hidden_states return_dict
    auto_map is_llama_config rope_interleaved use_bfloat16 cache_implementation chunk_size_feed_forward
    is_encoder_decoder add_cross_attention id2label label2id problem_type gradient_checkpointing finetuning_task
    task_specific_params use_return_dict mm_tokens_per_image boi_token_index eoi_token_index image_token_index
    boi_token_id eoi_token_id image_token_id video_token_id vision_start_token_id vision_end_token_id vision_token_id
    audio_token_id vision_config audio_config unsloth_version unsloth_fixed router_aux_loss_coef output_router_logits
    attn_implementation language text_config_overrides mlp_only_layers_note tokenizer_class
    """.split()
)

LARGEST = 1 << 24  # far above any size of a model or length of a text: what a damaged number may cost at most
_LARGEST_FLOAT = float(np.finfo(np.float32).max)
_REQUIRED: Any = object()
T = TypeVar("T")


class Config(Mapping[str, Any]):
    """Read-only view of a config that remembers which keys were read.

    `container` is "gguf" or "safetensors": where the same model is stored differently, the architecture asks it.
    Raises CorruptFile for a value of the wrong type and for a key that is needed and absent, UnsupportedArchitecture
    for a value that is not implemented.
    """

    def __init__(self, values: Mapping[str, Any], *, container: str, path: str) -> None:
        self._values = dict(values)
        self._read: set[str] = set()
        self.container = container
        self.path = path

    def __getitem__(self, key: str) -> Any:
        return self.get(key, _REQUIRED)

    def __iter__(self) -> Any:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: str, default: Any = None) -> Any:
        """The key's value, `default` where it is absent or null; without a default the key is required."""
        self._read.add(key)
        value = self._values.get(key)
        if value is not None:
            return value
        if default is _REQUIRED:
            raise CorruptFile(f"the config lacks {key!r}", path=self.path, hint="Is the model's config complete?")
        return default

    def present(self, key: str, other: str) -> str:
        """`key` where the config has it, else `other`: two names of one fact, of which some configs have both."""
        self.ignore(other)
        return other if self.get(key) is None else key

    def integer(self, key: str, default: int = _REQUIRED, *, least: int = 1) -> int:
        """A whole number from `least` up, or the default."""
        value = self.get(key, default)
        if _is_integer(value) and (value == default or least <= value <= LARGEST):
            return int(value)
        raise self._wrong(key, f"a whole number from {least} to {LARGEST}", value)

    def integers(self, key: str, default: list[int] = _REQUIRED, *, count: int | None = None) -> list[int]:
        """A list of whole numbers from 0 up. The default also stands for an empty list.

        `count`: how many there must be.
        """
        return self._list(key, default, count, "whole numbers", lambda n: _is_integer(n) and 0 <= n <= LARGEST)

    def number(
        self, key: str, default: float = _REQUIRED, *, above: float | None = None, below: float = math.inf
    ) -> float:
        """A finite number between `above` and `below`, or the default; without `above`, not a negative one."""
        value = self.get(key, default)
        is_above = _is_number(value) and (value >= 0 if above is None else value > above)
        if value is default or (is_above and value < below):
            return float(value)
        expected = "a number from 0 up" if above is None else f"a number above {above:g}"
        raise self._wrong(key, expected + (f", below {below:g}" if below < math.inf else ""), value)

    def numbers(self, key: str, default: list[float] = _REQUIRED, *, count: int | None = None) -> list[float]:
        """A list of finite numbers, otherwise as integers."""
        return self._list(key, default, count, "numbers", _is_number)

    def flag(self, key: str, default: bool = _REQUIRED) -> bool:
        """True or false."""
        value = self.get(key, default)
        if not isinstance(value, bool):
            raise self._wrong(key, "true or false", value)
        return value

    def choice(self, key: str, options: Mapping[str, T], default: str = _REQUIRED) -> T:
        """The option that a string names; another string is refused by name."""
        return self._option(key, self.get(key, default), options)

    def choices(
        self, key: str, options: Mapping[str, T], default: list[str] | None = None, *, count: int | None = None
    ) -> list[T]:
        """The options that the strings of a list name, such as the kinds of layers; another string is refused by name.

        The default also stands for an empty list; without one the key is required. `count`: how many there must be.
        """
        names = self._list(key, _REQUIRED if default is None else default, count, "strings", lambda name: True)
        return [self._option(key, name, options) for name in names]

    def expect(self, key: str, value: Any) -> None:
        """Refuses any other value than the only one implemented (absent counts as that value)."""
        found = self.get(key, value)
        if found != value:
            raise UnsupportedArchitecture(
                f"config key {key!r} changes the model in a way that is not implemented",
                path=self.path,
                expected=repr(value),
                found=repr(found),
            )

    def ignore(self, *keys: str) -> None:
        """Marks keys as read that have no part in this model's forward pass, or that its tensors answer."""
        self._read.update(keys)

    def limits(self, key: str, default: tuple[float, float]) -> tuple[float, float]:
        """A pair of numbers, either of which may be infinite."""
        values = self.get(key, list(default))
        parts = values if isinstance(values, list) else []
        numbers: list[Any] = [v.get("__float__") if isinstance(v, Mapping) else v for v in parts]
        numbers = [math.inf if number == "Infinity" else number for number in numbers]
        are_numbers = all(number == math.inf or _is_number(number) for number in numbers)
        if len(numbers) != 2 or not are_numbers or numbers[0] > numbers[1]:
            raise self._wrong(key, "two numbers, the first not above the second", values)
        return float(numbers[0]), float(numbers[1])

    def of_layer(self, key: str, layer: int) -> Config:
        """The same config where `key`, if it has a list of values for layers, has the one for this layer."""
        values = self.get(key)
        if not isinstance(values, list):
            return self
        if layer >= len(values):
            raise self._wrong(key, "a value for every layer", values)
        return self.replaced(key, values[layer])

    def replaced(self, key: str, value: Any) -> Config:
        """The same config with another value of `key`; reading it counts as reading this one."""
        other = Config({**self._values, key: value}, container=self.container, path=self.path)
        other._read = self._read
        return other

    def section(self, key: str, default: Mapping[str, Any] = _REQUIRED) -> Config:
        """A nested config, such as `text_config`."""
        values = self.get(key, default)
        if not isinstance(values, Mapping):
            raise self._wrong(key, "an object", values)
        return Config(values, container=self.container, path=self.path)

    def _list(
        self, key: str, default: list[Any], count: int | None, kind: str, fits: Callable[[Any], bool]
    ) -> list[Any]:
        values = self.get(key, default)
        if values == [] and default is not _REQUIRED:
            values = default
        if not isinstance(values, list) or count not in (None, len(values)) or not all(map(fits, values)):
            raise self._wrong(key, f"a list of {kind}" if count is None else f"a list of {count} {kind}", values)
        return values

    def _wrong(self, key: str, expected: str, found: Any) -> CorruptFile:
        return CorruptFile(f"config key {key!r}", path=self.path, expected=expected, found=repr(found)[:200])

    def _option(self, key: str, name: Any, options: Mapping[str, T]) -> T:
        if not isinstance(name, str) or name not in options:
            raise UnsupportedArchitecture(
                f"config key {key!r}", path=self.path, expected=" or ".join(map(repr, options)), found=repr(name)
            )
        return options[name]

    def refuse_unread(self) -> None:
        """Raises for keys that nobody read and that are not known to be harmless."""
        unread = [
            key
            for key, value in self._values.items()
            if key not in self._read and key not in HARMLESS and not key.startswith("_") and value is not None
        ]
        if unread:
            raise UnsupportedArchitecture(
                f"config keys that may change the maths and are not understood: {', '.join(sorted(unread))}",
                path=self.path,
                hint="If they are harmless, have them ignored (ignore_config_keys=[...], --ignore-config-key)",
            )


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _LARGEST_FLOAT
